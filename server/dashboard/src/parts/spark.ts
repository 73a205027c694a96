type Values = readonly (number | null)[];

/** The path of a line through `values` in a box, a gap where one is null; closed to the ground with `isArea`. */
export function sparkPath(values: Values, box: { width: number; height: number; top: number }, isArea = false): string {
  const step = box.width / Math.max(1, values.length - 1);
  const height = (value: number) => box.height * (1 - Math.min(1, Math.max(0, value / (box.top || 1))));
  const points = values.map((value, index) => (value === null ? null : ([index * step, height(value)] as const)));
  return runsOf(points)
    .map((run) => {
      const line = run.map(([x, y]) => `${round(x)},${round(y)}`).join("L");
      const first = run[0]?.[0] ?? 0;
      // A lone point is as wide as a step, else it would not be seen.
      const end = run.length === 1 ? `H${round(Math.min(box.width, first + step))}` : "";
      return isArea ? `M${round(first)},${box.height}L${line}${end}V${box.height}Z` : `M${line}${end}`;
    })
    .join("");
}

function runsOf<T>(values: readonly (T | null)[]): T[][] {
  const runs: T[][] = [[]];
  for (const value of values) {
    if (value === null) runs.push([]);
    else runs.at(-1)?.push(value);
  }
  return runs.filter((run) => run.length > 0);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
