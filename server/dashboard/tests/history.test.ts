import { expect, test } from "vitest";
import { courseOf, joined } from "../src/history/course";
import { bandsOf } from "../src/session/bands";
import { titlesOf } from "../src/session/titles";

const series = (metric: string, device_id: string | null, values: (number | null)[]) => ({
  metric,
  agent_id: device_id ? "n" : null,
  device_id,
  values,
});

const HISTORY = {
  started_at: "1970-01-01T00:01:40Z",
  step: 10,
  points: 3,
  series: [series("power", "a", [100, 200, null]), series("utilization", "a", [1, 2, null])],
  warning: null,
};

test("a metric from the history as columns", () => {
  const course = courseOf(HISTORY, "power", 0.5);
  expect(course.times).toEqual([100, 110, 120]);
  expect([...course.rows]).toEqual([["n/a", [50, 100, null]]]);
});

test("live readings continue where the history ends", () => {
  const past = courseOf(HISTORY, "utilization");
  const live = {
    times: [108, 112, 114],
    rows: new Map([
      ["n/a", [7, 8, 9]],
      ["n/b", [4, 5, 6]],
    ]),
  };
  const all = joined(past, live);
  expect(all.times).toEqual([100, 110, 112, 114]);
  expect([...all.rows]).toEqual([
    ["n/a", [1, 2, 8, 9]],
    ["n/b", [null, null, 5, 6]],
  ]);
  expect(joined(courseOf({ ...HISTORY, points: 0, series: [] }, "power"), live)).toEqual(live);
  expect(joined(past, { times: [], rows: new Map() }).times).toEqual([100, 110]);
});

test("a session's start is tinted, even while it goes on", () => {
  const at = (second: number) => new Date(second * 1000).toISOString();
  expect(bandsOf({ scheduled_at: null, started_at: null })).toEqual([]);
  expect(bandsOf({ scheduled_at: at(5), started_at: at(9) })).toMatchObject([{ from: 5, to: 9 }]);
  expect(bandsOf({ scheduled_at: at(5), started_at: null })).toMatchObject([{ from: 5, to: Infinity }]);
});

test("a device that its agent no longer has is shown by the end of its id", () => {
  const names = titlesOf([{ id: "GPU-1", name: "cuda0", where: "n" }]);
  expect([names("n/GPU-1"), names("m/GPU-abcdef")]).toEqual(["cuda0 on n", "…abcdef on m"]);
});
