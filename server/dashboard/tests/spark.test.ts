import { expect, test } from "vitest";
import { sparkPath } from "../src/parts/spark";

const BOX = { width: 30, height: 10, top: 5 };

test("a line has gaps for missing values and stays in its box", () => {
  expect(sparkPath([0, 5, null, 9], BOX)).toBe("M0,10L10,0M20,0H30");
  expect(sparkPath([null, 1, null, 2], BOX)).toBe("M0,8H10M20,6H30");
  expect(sparkPath([null, null], BOX)).toBe("");
});

test("an area is closed at the bottom", () => {
  expect(sparkPath([0, 5, 5, 0], BOX, true)).toBe("M0,10L0,10L10,0L20,0L30,10V10Z");
});
