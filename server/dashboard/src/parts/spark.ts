type Values = readonly (number | null)[];

/** The SVG path of a line through `values` in a box, with gaps for null; closed to the bottom with `isArea`. */
export function sparkPath(values: Values, box: { width: number; height: number; top: number }, isArea = false): string {
  const step = box.width / Math.max(1, values.length - 1);
  const height = (value: number) => box.height * (1 - Math.min(1, Math.max(0, value / (box.top || 1))));
  const points = values.map((value, index) => (value === null ? null : ([index * step, height(value)] as const)));
  return runsOf(points)
    .map((run) => {
      const line = run.map(([x, y]) => `${round(x)},${round(y)}`).join("L");
      const at = run[0]?.[0] ?? 0;
      // A single point is drawn as wide as a step, otherwise it would be invisible.
      const first = run.length === 1 ? Math.max(0, at - step) : at;
      const end = run.length === 1 ? `H${round(Math.max(at, first + step))}` : "";
      const path = run.length === 1 ? `${round(first)},${round(run[0]?.[1] ?? 0)}` : line;
      return isArea ? `M${round(first)},${box.height}L${path}${end}V${box.height}Z` : `M${path}${end}`;
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
