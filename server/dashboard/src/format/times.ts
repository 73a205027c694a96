import { serverNow } from "../api/time";
import { turnOf } from "./local";

/** A duration for people, with at most two units: 80 ms, 45 s, 3 min 20 s, 2 h 5 min, 4 d 3 h. */
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

// Kept, as `toLocaleTimeString` makes a new format with each call, which takes 60 times as long.
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const MINUTES = new Intl.DateTimeFormat([], CLOCK);
const SECONDS = new Intl.DateTimeFormat([], { ...CLOCK, second: "2-digit" });
const DAYS = new Intl.DateTimeFormat([], { day: "2-digit", month: "short" });
const ZONES = new Intl.DateTimeFormat([], { hour: "2-digit", timeZoneName: "short" });
const DATES = new Intl.DateTimeFormat([], { day: "2-digit", month: "short", year: "numeric" });

/** A time in the viewer's zone, with the date if it is not today. */
export function moment(when: string | number, now: number = serverNow()): string {
  const date = new Date(when);
  const time = `${SECONDS.format(date)}${zone(date)}`;
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${DATES.format(date)} ${time}`;
}

/** A time in the viewer's zone to the minute: 15:40, with the day if it is another one. */
export function clockTime(when: string | number, now: number): string {
  const date = new Date(when);
  return date.toDateString() === new Date(now).toDateString() ? `${MINUTES.format(date)}${zone(date)}` : dayTime(when);
}

/** A time in the viewer's zone to the minute with its day: Nov 29 15:40. */
export function dayTime(when: string | number): string {
  const date = new Date(when);
  return `${DAYS.format(date)} ${MINUTES.format(date)}${zone(date)}`;
}

/** The name of the zone's time, like " GMT+2", where the clocks are set back and the time comes twice; else nothing. */
function zone(date: Date): string {
  if (turnOf(date.getTime()) === null) return "";
  return ` ${ZONES.formatToParts(date).find(({ type }) => type === "timeZoneName")?.value ?? ""}`;
}

/** A message of the server, with its times (UTC) in the viewer's zone. */
export function withLocalTimes(text: string, now: number): string {
  return text.replace(/\b(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}(?::\d{2})?) UTC/g, (_, day: string, time: string) =>
    clockTime(`${day}T${time}Z`, now),
  );
}

/** The message about an invalid duration. */
export const DURATION_FORM = "Enter a duration, like 90s, 15m, 2h30m or 1d12h.";

const TEXT_CHARS_MAX = 40;
const DURATION_S_LIMIT = 1e12;
const DAY_S = 86_400;
/** Seconds in each unit, largest first. */
const UNITS: Readonly<Record<string, number>> = {
  y: 365 * DAY_S,
  w: 7 * DAY_S,
  d: DAY_S,
  h: 3_600,
  m: 60,
  s: 1,
  ms: 0.001,
};
/** By unit, the unit of a following number without one, and how many of it make one of the larger. */
const NEXT_SMALLER: Readonly<Record<string, readonly [string, number]>> = {
  w: ["d", 7],
  d: ["h", 24],
  h: ["m", 60],
  m: ["s", 60],
};

/**
 * Seconds of a typed duration: 90, 90s, 10m, 1h30m, 2d, and 2h30 for 2 h 30 min; NaN if it is invalid. The grammar is
 * that of the server's `parse_duration`; both are tested with tests/data/durations.json.
 */
export function secondsOf(text: string): number {
  const written = text.trim().toLowerCase();
  if (text.length > TEXT_CHARS_MAX) return NaN;
  const seconds = /^(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?$/.test(written) ? Number(written) : withUnits(written);
  return seconds <= DURATION_S_LIMIT ? seconds : NaN;
}

/** A duration as it is typed, exact to the millisecond: 604800 is 7d, 5400 is 1h30m. */
export function durationText(seconds: number): string {
  let left = Math.round(seconds * 1000);
  const parts: string[] = [];
  for (const unit of ["d", "h", "m", "s", "ms"]) {
    const ms = (UNITS[unit] ?? NaN) * 1000;
    const count = Math.floor(left / ms);
    left -= count * ms;
    if (count) parts.push(`${count}${unit}`);
  }
  return parts.join("") || "0s";
}

function withUnits(written: string): number {
  const found = /^(?:\d+(?:\.\d+)?\s*(?:ms|min|[ywdhms])\s*)+(\d+)?$/.exec(written);
  if (!found) return NaN;
  const parts = [...written.matchAll(/(\d+(?:\.\d+)?)\s*(ms|min|[ywdhms])/g)].map(
    ([, number = "", unit = ""]) => [number, unit.replace("min", "m")] as const,
  );
  const [number = "", unit = ""] = parts.at(-1) ?? [];
  if (found[1] !== undefined) {
    const [smaller = "", count = 0] = NEXT_SMALLER[unit] ?? [];
    if (number.includes(".") || Number(found[1]) >= count) return NaN;
    parts.push([found[1], smaller]);
  }
  const places = parts.map(([, one]) => Object.keys(UNITS).indexOf(one));
  if (places.some((place, at) => at > 0 && place <= (places[at - 1] ?? 0))) return NaN;
  return parts.reduce((sum, [amount, one]) => sum + Number(amount) * (UNITS[one] ?? NaN), 0);
}
