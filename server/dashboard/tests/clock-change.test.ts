import { expect, test, vi } from "vitest";

// Before the imports, as formats keep the zone in which they were made.
vi.hoisted(() => {
  process.env["TZ"] = "Europe/Berlin";
});

import { ticksOf } from "../src/cluster/bars";
import { changeText, isSkipped, localText, momentOfLocal, turnOf } from "../src/format/local";
import { clockTime, dayTime, moment } from "../src/format/times";

const FIRST = Date.parse("2027-10-31T00:30:00Z");
const SECOND = Date.parse("2027-10-31T01:30:00Z");
const DAY_MS = 86_400_000;

test("a time that comes twice keeps its moment until its text changes, and is else the first", () => {
  expect([localText(FIRST), localText(SECOND)]).toEqual(["2027-10-31T02:30", "2027-10-31T02:30"]);
  expect(momentOfLocal("2027-10-31T02:30", SECOND)).toBe(SECOND);
  expect(momentOfLocal("2027-10-31T02:30", FIRST)).toBe(FIRST);
  expect(momentOfLocal("2027-10-31T02:30")).toBe(FIRST);
  expect(momentOfLocal("2027-10-31T02:31", SECOND)).toBe(FIRST + 60_000);
  expect([FIRST, SECOND, FIRST - 3_600_000, SECOND + 3_600_000].map(turnOf)).toEqual(["first", "second", null, null]);
});

test("the form that books names a time that the clocks skip, and which of two is meant", () => {
  expect(["2027-03-28T01:59", "2027-03-28T02:00", "2027-03-28T02:59", "2027-03-28T03:00", ""].map(isSkipped)).toEqual([
    false,
    true,
    true,
    false,
    false,
  ]);
  const said = (text: string, ms = Date.parse(text)) => changeText(text, ms);
  expect(said("2027-03-28T02:30").wrong).toBe("The clocks are set forward over this time.");
  expect(said("2027-10-31T02:30", SECOND).hint).toContain("and the second is meant");
  expect(said("2027-10-31T02:30").hint).toContain("and the first is meant");
  expect([said("2027-10-31T03:00"), said("2027-03-28T03:00")]).toEqual([{}, {}]);
  expect(said("").wrong).toBe("Enter a date and a time.");
});

test("times that come twice are shown with their zone", () => {
  expect(dayTime(FIRST)).toMatch(/02:30 (GMT\+2|CEST)$/);
  expect(dayTime(SECOND)).toMatch(/02:30 (GMT\+1|CET)$/);
  expect(clockTime(SECOND, SECOND)).toMatch(/^02:30 (GMT\+1|CET)$/);
  expect(moment(FIRST, FIRST)).toMatch(/^02:30:00 (GMT\+2|CEST)$/);
  expect(dayTime(SECOND + 3_600_000)).toMatch(/03:30$/);
});

test.each(["2027-03-28", "2027-10-31"])("days begin at 00:00 on an axis also after the clock change of %s", (day) => {
  const middle = Date.parse(`${day}T12:00:00Z`);
  const hours = (ticks: readonly number[]) => new Set(ticks.map((at) => new Date(at).getHours()));
  const week = ticksOf({ from: middle - 3.5 * DAY_MS, to: middle + 3.5 * DAY_MS }, 7);
  expect(week.length).toBe(7);
  expect(hours(week)).toEqual(new Set([0]));
  const days = ticksOf({ from: middle - DAY_MS, to: middle + DAY_MS }, 8);
  expect(days.length).toBe(8);
  expect(hours(days)).toEqual(new Set([0, 6, 12, 18]));
  const hourly = ticksOf({ from: middle - DAY_MS / 2, to: middle }, 12);
  expect(hourly.length).toBe(12);
  expect(new Set(hourly.slice(1).map((at, index) => at - (hourly[index] ?? 0)))).toEqual(new Set([3_600_000]));
});
