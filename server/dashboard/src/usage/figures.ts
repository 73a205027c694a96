import type { ObservedUseQuery } from "../generated/graphql";
import { csv } from "./csv";
import type { Finished, Used } from "./loading";

type ObservedGpu = ObservedUseQuery["observed_gpus"][number];

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

/** A histogram of the waiting times of started sessions. */
export function waitsOf(sessions: readonly Finished[]): Bin[] {
  const waits = waitSeconds(sessions);
  return EDGES.map(([label, below], index) => {
    const from = EDGES[index - 1]?.[1] ?? 0;
    return { label, count: waits.filter((wait) => wait >= from && wait < below).length };
  });
}

/** A quantile of the waiting times; null without any. */
export function waitQuantile(sessions: readonly Finished[], part: number): number | null {
  const waits = waitSeconds(sessions).sort((one, other) => one - other);
  return waits[Math.min(waits.length - 1, Math.floor(part * waits.length))] ?? null;
}

export function csvOf(rows: readonly Used[]): string {
  const heads = ["project", "user", "gpu_hours", "gpu_hours_month", "gpu_hours_decayed", "share"] as const;
  return csv(
    heads,
    rows.map((row) => heads.map((head) => row[head])),
  );
}

function waitSeconds(sessions: readonly Finished[]): number[] {
  return sessions.flatMap(({ queued_at, started_at }) =>
    started_at ? [Math.max(0, (Date.parse(started_at) - Date.parse(queued_at)) / 1000)] : [],
  );
}

/** GPUs of one node that are used by the same people. */
export interface JointUse {
  readonly hostname: string;
  readonly gpus: readonly string[];
  /** The mean of those that are measured; null without any. */
  readonly usePct: number | null;
  readonly who: string;
}

/** What the GPUs of each node are used for now, one row for all that have the same users. */
export function jointUsesOf(gpus: readonly ObservedGpu[]): JointUse[] {
  const groups = new Map<string, ObservedGpu[]>();
  for (const gpu of gpus) {
    const key = JSON.stringify([gpu.hostname, whoOf(gpu)]);
    groups.set(key, [...(groups.get(key) ?? []), gpu]);
  }
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    const measured = group.flatMap(({ utilization_pct: pct }) => (pct === null ? [] : [pct]));
    const usePct = measured.length ? measured.reduce((sum, pct) => sum + pct, 0) / measured.length : null;
    return [{ hostname: first.hostname, gpus: group.map(({ name }) => name), usePct, who: whoOf(first) }];
  });
}

function whoOf({ people }: ObservedGpu): string {
  const names = people.map(({ user, processes }) =>
    processes ? `${user} (${processes === 1 ? "1 process" : `${processes} processes`})` : user,
  );
  return names.join(", ") || "free";
}
