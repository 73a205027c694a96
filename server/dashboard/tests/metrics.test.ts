import { describe, expect, test } from "vitest";
import { byBest, namesOf, pointsOf, valueText, type Task } from "../src/session/metrics";

const task = (index: number, values: Readonly<Record<string, readonly [number, number]>>): Task => ({
  index,
  session_id: `ses_1_${index}`,
  state: "completed" as Task["state"],
  series: Object.entries(values).map(([name, [low, high]]) => ({ name, low, high, last: low })),
});

describe("metrics", () => {
  test("points have ascending, unique steps", () => {
    expect(pointsOf({ steps: ["10", "0", 10], values: [1, 2, 3] })).toEqual({ steps: [0, 10], values: [2, 3] });
  });

  test("tasks are sorted by their best value, those without one last", () => {
    const tasks = [task(0, {}), task(1, { loss: [2, 9] }), task(2, { loss: [1, 3], acc: [0, 1] })];
    expect(namesOf(tasks)).toEqual(["acc", "loss"]);
    expect(byBest(tasks, "loss", "low").map(({ index }) => index)).toEqual([2, 1, 0]);
    expect(byBest(tasks, "loss", "high").map(({ index }) => index)).toEqual([1, 2, 0]);
  });

  test("values are short", () => {
    expect([null, 0.1 + 0.2, 1234567, 1e-9].map(valueText)).toEqual(["—", "0.3", "1234570", "1e-9"]);
  });
});
