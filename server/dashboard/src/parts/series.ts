export type Values = readonly (number | null)[];

export interface Columns {
  readonly times: readonly number[];
  readonly series: readonly Values[];
}

/** A hole is longer than this many usual steps. */
const STEPS = 3.5;

/** The columns with an empty sample in each hole, so that no line is drawn across it. */
export function withGaps({ times, series }: Columns): Columns {
  const step = usualStep(times);
  const holes = new Set<number>();
  for (let at = 1; at < times.length; at += 1)
    if ((times[at] ?? 0) - (times[at - 1] ?? 0) > STEPS * step) holes.add(at);
  if (holes.size === 0) return { times, series };
  const spread = <T>(row: readonly T[], filler: (at: number) => T) =>
    row.flatMap((value, at) => (holes.has(at) ? [filler(at), value] : [value]));
  return {
    times: spread(times, (at) => (times[at - 1] ?? 0) + step),
    series: series.map((row) => spread(row, () => null)),
  };
}

/** The least, the mean and the most of several series at each time; null where none has a value. */
export function rangeOver(series: readonly Values[]): { least: Values; mean: Values; most: Values } {
  const length = Math.max(0, ...series.map((row) => row.length));
  const at = (index: number) => series.flatMap((row) => row[index] ?? []);
  const over = (reduce: (values: readonly number[]) => number): Values =>
    Array.from({ length }, (_, index) => {
      const values = at(index);
      return values.length ? reduce(values) : null;
    });
  return {
    least: over((values) => Math.min(...values)),
    mean: over((values) => values.reduce((sum, one) => sum + one, 0) / values.length),
    most: over((values) => Math.max(...values)),
  };
}

/** The median distance of times. */
function usualStep(times: readonly number[]): number {
  const steps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  steps.sort((one, other) => one - other);
  return steps[Math.floor(steps.length / 2)] ?? Infinity;
}

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const DAY = { day: "numeric", month: "short" } as const;

/** A time on an axis with such steps: with seconds where they differ, and the date where a day begins. */
export function clockOf(seconds: number, stepS: number): string {
  const date = new Date(seconds * 1000);
  if (stepS >= HOUR_S && date.getHours() === 0) return date.toLocaleDateString([], DAY);
  return date.toLocaleTimeString([], stepS < 60 ? { ...CLOCK, second: "2-digit" } : CLOCK);
}

/** The time of a sample at the pointer; with the date where the samples cover a day and more. */
export function timeAt(seconds: number, times: readonly number[]): string {
  const covered = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const others = covered < DAY_S - HOUR_S ? ({ second: "2-digit" } as const) : DAY;
  return new Date(seconds * 1000).toLocaleString([], { ...CLOCK, ...others });
}
