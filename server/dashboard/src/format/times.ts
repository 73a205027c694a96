/** Milliseconds as people say them, with two units at most: 80 ms, 45 s, 3 min 20 s, 2 h 5 min, 4 d 3 h. */
export function duration(ms: number): string {
  if (ms > 0 && ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return joined(Math.floor(seconds / 60), "min", seconds % 60, "s");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return joined(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.floor(minutes / 60);
  return joined(Math.floor(hours / 24), "d", hours % 24, "h");
}

function joined(large: number, unit: string, small: number, smallUnit: string): string {
  return small ? `${large} ${unit} ${small} ${smallUnit}` : `${large} ${unit}`;
}

/** A moment for people in their own zone; with the day where it is not today. */
export function moment(when: string | number, now: number = Date.now()): string {
  const date = new Date(when);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.toLocaleDateString([], { day: "2-digit", month: "short", year: "numeric" })} ${time}`;
}

/** Seconds from what people type: 90, 90s, 10m, 1h30m, 2d. NaN when it is none of these. */
export function secondsOf(text: string): number {
  const trimmed = text.trim().toLowerCase();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed);
  if (!/^(\d+(\.\d+)?\s*(d|h|m|min|s)\s*)+$/.test(trimmed)) return NaN;
  const scale: Record<string, number> = { d: 86_400, h: 3_600, m: 60, min: 60, s: 1 };
  return [...trimmed.matchAll(/(\d+(?:\.\d+)?)\s*(min|d|h|m|s)/g)].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (scale[unit ?? "s"] ?? NaN),
    0,
  );
}
