import type { ArrayMetricsQuery } from "../generated/graphql";

export type Task = ArrayMetricsQuery["array_metrics"]["tasks"][number];
export type Best = "low" | "high";

interface Points {
  readonly steps: readonly (number | string)[];
  readonly values: readonly number[];
}

/** Points with ascending steps, for a plot; of several with one step the last one counts. */
export function pointsOf({ steps, values }: Points): { steps: number[]; values: number[] } {
  const byStep = new Map(steps.map((step, index) => [Number(step), values[index] ?? 0]));
  const sorted = [...byStep].sort(([one], [other]) => one - other);
  return { steps: sorted.map(([step]) => step), values: sorted.map(([, value]) => value) };
}

/** Names of all metrics of some tasks. */
export function namesOf(tasks: readonly Task[]): string[] {
  return [...new Set(tasks.flatMap(({ series }) => series.map(({ name }) => name)))].sort();
}

/** The tasks by their best value of a metric; those without it at the end, by index. */
export function byBest(tasks: readonly Task[], name: string, best: Best): Task[] {
  const valueOf = (task: Task) => {
    const found = bestOf(task, name, best);
    if (found === null) return Infinity;
    return best === "low" ? found : -found;
  };
  return [...tasks].sort((one, other) => {
    const [first, second] = [valueOf(one), valueOf(other)];
    return first === second ? one.index - other.index : first - second;
  });
}

export function bestOf(task: Task, name: string, best: Best): number | null {
  return task.series.find((series) => series.name === name)?.[best] ?? null;
}

/** A value with at most six significant digits. */
export function valueText(value: number | null): string {
  return value === null ? "—" : String(Number(value.toPrecision(6)));
}
