import type { HistoryPartsFragment } from "../generated/graphql";

export type Values = readonly (number | null)[];

/** One metric of several devices over time, in columns for a plot. */
export interface Course {
  /** Seconds since the epoch, ascending. */
  readonly times: readonly number[];
  /** By key; each as long as `times`. */
  readonly rows: ReadonlyMap<string, Values>;
}

type Series = HistoryPartsFragment["series"][number];

export function keyOf(agentId: string | null, deviceId: string | null): string {
  return `${agentId ?? ""}/${deviceId ?? ""}`;
}

/** The start of each step, seconds since the epoch. */
export function timesOf(steps: Pick<HistoryPartsFragment, "started_at" | "step" | "points">): number[] {
  const first = Date.parse(steps.started_at) / 1000;
  return Array.from({ length: steps.points }, (_, index) => first + index * steps.step);
}

/** The series of a metric, by `keyOf` agent and device; values are multiplied by `scale`. */
export function courseOf(history: HistoryPartsFragment, metric: string, scale = 1): Course {
  const scaled = ({ values }: Series) => values.map((value) => (value === null ? null : value * scale));
  return {
    times: timesOf(history),
    rows: new Map(
      history.series
        .filter((series) => series.metric === metric)
        .map((series) => [keyOf(series.agent_id, series.device_id), scaled(series)]),
    ),
  };
}

/** `past`, continued by the values of `live` after its last one. */
export function joined(past: Course, live: Course): Course {
  const known = past.times.findLastIndex((_, index) => [...past.rows.values()].some((row) => row[index] !== null));
  const last = past.times[known] ?? -Infinity;
  const first = live.times.findIndex((at) => at > last);
  const from = first < 0 ? live.times.length : first;
  const keys = new Set([...past.rows.keys(), ...live.rows.keys()]);
  const parts = [
    { ...past, from: 0, to: known + 1 },
    { ...live, from, to: live.times.length },
  ];
  return {
    times: parts.flatMap(({ times, from: start, to }) => times.slice(start, to)),
    rows: new Map(
      [...keys].map((key) => [
        key,
        parts.flatMap(
          ({ rows, from: start, to }): Values =>
            rows.get(key)?.slice(start, to) ?? Array.from({ length: to - start }, () => null),
        ),
      ]),
    ),
  };
}
