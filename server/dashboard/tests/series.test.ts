import { expect, test } from "vitest";
import { clockOf, rangeOver, timeAt, withGaps } from "../src/parts/series";

test("missing samples leave a gap, regular samples none", () => {
  const even = { times: [0, 10, 20], series: [[1, 2, 3]] };
  expect(withGaps(even)).toEqual(even);
  expect(
    withGaps({
      times: [0, 10, 20, 100, 110],
      series: [
        [1, 2, 3, 4, 5],
        [null, 1, 1, 1, 1],
      ],
    }),
  ).toEqual({
    times: [0, 10, 20, 30, 100, 110],
    series: [
      [1, 2, 3, null, 4, 5],
      [null, 1, 1, null, 1, 1],
    ],
  });
  expect(withGaps({ times: [], series: [] })).toEqual({ times: [], series: [] });
});

test("the range over several series ignores missing values", () => {
  expect(
    rangeOver([
      [1, null, 5],
      [3, null, null],
    ]),
  ).toEqual({
    least: [1, null, 5],
    mean: [2, null, 5],
    most: [3, null, 5],
  });
});

test("times over days have dates, those of seconds have seconds", () => {
  const at = (hour: number) => new Date(2027, 0, 31, hour).getTime() / 1000;
  const day = new Date(2027, 0, 31).toLocaleDateString([], { day: "numeric", month: "short" });
  expect([clockOf(at(0), 43_200), clockOf(at(12), 43_200)]).toEqual([day, "12:00"]);
  expect([clockOf(at(0), 300), clockOf(at(12), 30)]).toEqual(["00:00", "12:00:00"]);
  expect(timeAt(at(12), [at(0), at(0) + 7 * 86_400])).toContain(day);
  expect(timeAt(at(12), [at(11), at(13)])).not.toContain(day);
});
