import type { Finished, Used } from "./loading";

export interface Bin {
  readonly label: string;
  readonly count: number;
}

const EDGES: readonly (readonly [label: string, belowS: number])[] = [
  ["under 1 s", 1],
  ["1 s to 10 s", 10],
  ["10 s to 1 min", 60],
  ["1 to 10 min", 600],
  ["10 min to 1 h", 3_600],
  ["1 to 6 h", 21_600],
  ["6 to 24 h", 86_400],
  ["over a day", Infinity],
];

/** How long those that started had waited. */
export function waitsOf(sessions: readonly Finished[]): Bin[] {
  const waits = waitSeconds(sessions);
  return EDGES.map(([label, below], index) => {
    const from = EDGES[index - 1]?.[1] ?? 0;
    return { label, count: waits.filter((wait) => wait >= from && wait < below).length };
  });
}

/** The wait that so much of them did not exceed; null without any. */
export function waitQuantile(sessions: readonly Finished[], part: number): number | null {
  const waits = waitSeconds(sessions).sort((one, other) => one - other);
  return waits[Math.min(waits.length - 1, Math.floor(part * waits.length))] ?? null;
}

const HOURS_MIN = 12;

/** Sessions that ended, by the hour, to the last hour, of half a day at least; in columns for a plot. */
export function throughput(sessions: readonly Finished[]): { readonly times: number[]; readonly counts: number[] } {
  const hours = sessions.flatMap(({ ended_at: at }) => (at ? [Math.floor(Date.parse(at) / 3_600_000)] : []));
  if (hours.length === 0) return { times: [], counts: [] };
  const last = Math.max(...hours);
  const first = Math.min(...hours, last - HOURS_MIN + 1);
  const counts = Array.from({ length: last - first + 1 }, () => 0);
  for (const hour of hours) counts[hour - first] = (counts[hour - first] ?? 0) + 1;
  return { times: counts.map((_, index) => (first + index) * 3_600), counts };
}

export function csvOf(rows: readonly Used[]): string {
  const heads = ["project", "user", "gpu_hours", "gpu_hours_month", "gpu_hours_decayed", "share"] as const;
  const lines = rows.map((row) => heads.map((head) => cell(row[head])).join(","));
  return [heads.join(","), ...lines].map((line) => `${line}\r\n`).join("");
}

/** Quoted where needed (RFC 4180); what a spreadsheet would take for a formula is made text. */
function cell(value: string | number): string {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function waitSeconds(sessions: readonly Finished[]): number[] {
  return sessions.flatMap(({ queued_at, started_at }) =>
    started_at ? [Math.max(0, (Date.parse(started_at) - Date.parse(queued_at)) / 1000)] : [],
  );
}
