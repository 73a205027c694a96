import { describe, expect, test, vi } from "vitest";
import DURATIONS from "./durations.json";
import { clockTime, dayTime, duration, durationText, moment, secondsOf } from "../src/format/times";

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

describe("typed durations, parsed as by the server", () => {
  test.each(DURATIONS.map(({ text, seconds }) => [text, seconds] as const))("%j is %j s", (text, seconds) =>
    expect(secondsOf(text)).toEqual(seconds ?? NaN),
  );
});

test.each([
  [0, "0s"],
  [0.25, "250ms"],
  [90, "1m30s"],
  [9000, "2h30m"],
  [604_800, "7d"],
])("%d s is written as %s and parsed back", (seconds, text) => {
  expect(durationText(seconds)).toBe(text);
  expect(secondsOf(text)).toBe(seconds);
});

test("a time of another day has its date", () => {
  const now = new Date(2026, 4, 2, 12, 0, 0).getTime();
  expect(moment(now - 1000, now)).toBe("11:59:59");
  expect(moment(now - 86_400_000, now)).toContain("2026");
});

test("the first hour of a day is 00 in every browser", () => {
  const now = new Date(2026, 4, 2, 0, 5, 6).getTime();
  expect(moment(now, now)).toBe("00:05:06");
  expect(clockTime(now, now)).toBe("00:05");
});

test("no time makes a new format, which would take most of the time of a long table", () => {
  const made = vi.spyOn(Date.prototype, "toLocaleTimeString");
  moment(0, 1);
  clockTime(0, 1);
  dayTime(0);
  expect(made).not.toHaveBeenCalled();
});

test("a time to the minute has its day on request, or if it is not today", () => {
  const now = new Date(2026, 4, 2, 12, 0, 0).getTime();
  expect(clockTime(now, now)).toBe("12:00");
  expect(dayTime(now)).toMatch(/May.* 12:00$/);
  expect(clockTime(now - 86_400_000, now)).toBe(dayTime(now - 86_400_000));
});
