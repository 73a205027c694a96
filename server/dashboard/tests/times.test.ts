import { describe, expect, test } from "vitest";
import { duration, moment, secondsOf } from "../src/format/times";

describe("durations", () => {
  test.each([
    [0, "0 s"],
    [80, "80 ms"],
    [45_000, "45 s"],
    [200_000, "3 min 20 s"],
    [3_600_000, "1 h"],
    [7_500_000, "2 h 5 min"],
    [4 * 86_400_000 + 3 * 3_600_000, "4 d 3 h"],
    [-5_000, "0 s"],
  ])("%d ms is %s", (ms, words) => expect(duration(ms)).toBe(words));
});

describe("times as people type them", () => {
  test.each([
    ["90", 90],
    ["90s", 90],
    ["30m", 1_800],
    ["1h30m", 5_400],
    ["1h 30 min", 5_400],
    ["2d", 172_800],
    ["0.5h", 1_800],
  ])("%s is %d s", (text, seconds) => expect(secondsOf(text)).toBe(seconds));

  test.each(["", "h", "1x", "1h foo", "-5m"])("%s is none", (text) => expect(secondsOf(text)).toBeNaN());
});

test("a moment of another day says which", () => {
  const now = new Date(2026, 4, 2, 12, 0, 0).getTime();
  expect(moment(now - 1000, now)).toBe("11:59:59");
  expect(moment(now - 86_400_000, now)).toContain("2026");
});
