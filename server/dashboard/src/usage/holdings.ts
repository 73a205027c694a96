import type { UsageHistoryQuery } from "../generated/graphql";
import { timesOf, type Values } from "../history/course";
import { csv } from "./csv";

export type UsageHistory = UsageHistoryQuery["usage_history"];

/** The GPU-hours of a user or project, and their utilization. */
export interface Holding {
  readonly name: string;
  readonly hours: readonly number[];
  /** Percent. */
  readonly busy: Values;
}

export const OTHERS = "others";
const SHOWN = 9;

/** The largest holders first; all but the first nine are combined at the end. */
export function holdingsOf(history: UsageHistory): Holding[] {
  const all = history.series.map(({ name, gpu_hours, utilization }) => ({
    name: name ?? OTHERS,
    hours: gpu_hours,
    busy: utilization,
  }));
  const named = all.filter(({ name }) => name !== OTHERS);
  const rest = [...named.slice(SHOWN), ...all.filter(({ name }) => name === OTHERS)];
  return rest.length ? [...named.slice(0, SHOWN), { ...together(rest), name: OTHERS }] : named;
}

/** The sum of the hours, and the mean utilization weighted by hours. */
export function together(holdings: readonly Holding[]): Omit<Holding, "name"> {
  const steps = holdings[0]?.hours.length ?? 0;
  const at = Array.from({ length: steps }, (_, index) => index);
  return {
    hours: at.map((index) => holdings.reduce((sum, { hours }) => sum + (hours[index] ?? 0), 0)),
    busy: at.map((index) => mean(holdings.map(({ hours, busy }) => [hours[index] ?? 0, busy[index] ?? null]))),
  };
}

/** Heights of stacked bars, highest first: each is drawn over the one before it. */
export function stacked(holdings: readonly Holding[]): number[][] {
  return holdings.map((_, from) => [...together(holdings.slice(from)).hours]);
}

/** Mean utilization in percent; null if nothing was held or measured. */
export function efficiencyOf({ hours, busy }: Omit<Holding, "name">): number | null {
  return mean(hours.map((held, index) => [held, busy[index] ?? null]));
}

export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** CSV with one line per step and holder, where it is not zero. */
export function csvOf(history: UsageHistory, by: "user" | "project"): string {
  const times = timesOf(history);
  return csv(
    ["from", "seconds", by, "gpu_hours", "utilization_pct"],
    history.series.flatMap(({ name, gpu_hours: hours, utilization }) =>
      times.flatMap((at, index) =>
        hours[index]
          ? [[new Date(at * 1000).toISOString(), history.step, name ?? OTHERS, hours[index], utilization[index] ?? ""]]
          : [],
      ),
    ),
  );
}

function mean(parts: readonly (readonly [weight: number, value: number | null])[]): number | null {
  const known = parts.filter(([weight, value]) => weight > 0 && value !== null);
  const weights = sumOf(known.map(([weight]) => weight));
  return weights > 0 ? sumOf(known.map(([weight, value]) => weight * (value ?? 0))) / weights : null;
}
