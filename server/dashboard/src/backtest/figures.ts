import type { BacktestInput, BacktestQuery } from "../generated/graphql";
import { duration, secondsOf } from "../format/times";

export type Backtest = NonNullable<BacktestQuery["backtest"]>;
export type Report = NonNullable<Backtest["report"]>;
export type Row = Report["rows"][number];

const DAY_MS = 86_400_000;
/** The longest history that the server runs again. */
const DAYS_MAX = 365;

/** The input of a backtest of the last days. */
export function inputOf(runs: BacktestInput["runs"], days: number, now: number): BacktestInput {
  return { runs, since: new Date(now - days * DAY_MS).toISOString() };
}

/** The message about a typed length of the history; undefined if it is valid. */
export function spanWrong(text: string): string | undefined {
  const seconds = secondsOf(text);
  return seconds > 0 && seconds * 1000 <= DAYS_MAX * DAY_MS ? undefined : `Enter up to ${DAYS_MAX} days, like 28d.`;
}

/** The time before now by a typed length. */
export function sinceOf(text: string, now: number): string {
  return new Date(now - secondsOf(text) * 1000).toISOString();
}

export const isOpen = (state: string) => state === "queued" || state === "running";

/** How the policies of the time were reproduced, as a sentence. */
export function fidelityOf({ reproduced, different_count: different }: Report): string {
  const all = reproduced + different;
  return `Under the policies of the time, ${reproduced} of ${all} sessions start exactly when they started.`;
}

/** Winners and losers of a run, as a sentence. */
export function movesOf({ winners_count: winners, losers_count: losers }: Row): string {
  if (!winners && !losers) return "No session waits a minute more or less.";
  const less = winners === 1 ? "1 session waits less" : `${winners} sessions wait less`;
  return `${less}, ${losers} ${losers === 1 ? "waits" : "wait"} longer.`;
}

/** Users and projects of a run by the change of their mean wait, the largest loss first. */
export function groupsOf(row: Row) {
  return [...row.groups].sort((a, b) => b.wait - b.wait_before - (a.wait - a.wait_before));
}

/** A wait before and after, in words. */
export const waits = (before: number, after: number) => `${duration(before * 1000)} → ${duration(after * 1000)}`;

/** Times of the middle of equal parts of a span, in seconds since the epoch. */
export function timesOf(since: string, until: string, parts: number): number[] {
  const [from, to] = [Date.parse(since) / 1000, Date.parse(until) / 1000];
  return Array.from({ length: parts }, (_, part) => from + ((part + 0.5) * (to - from)) / parts);
}

const cell = (value: string | number) =>
  /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : value;

/** The figures of all runs as CSV, in seconds. */
export function csvOf({ rows }: Report): string {
  const head =
    "run,wait_mean_s,wait_p95_s,wait_max_s,completion_mean_s,completion_p95_s,completion_max_s,slowdown,utilization,preemptions,fairness_users,fairness_projects";
  const lines = rows.map((row) =>
    [
      row.label,
      ...[row.wait.mean, row.wait.p95, row.wait.max],
      ...[row.completion.mean, row.completion.p95, row.completion.max],
      ...[row.slowdown, row.utilization, row.preemptions, row.fairness_users, row.fairness_projects],
    ]
      .map(cell)
      .join(","),
  );
  return [head, ...lines].join("\n");
}
