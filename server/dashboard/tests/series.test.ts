import { expect, test } from "vitest";
import { rangeOver, withGaps } from "../src/parts/series";

test("a hole between samples is a gap, an even course has none", () => {
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

test("the range over several series, without those that have no value", () => {
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
