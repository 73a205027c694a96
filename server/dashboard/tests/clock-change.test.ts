import { expect, test, vi } from "vitest";

// Before the imports, as formats keep the zone in which they were made.
vi.hoisted(() => {
  process.env["TZ"] = "Europe/Berlin";
});

import { changeText } from "../src/calendar/entries";
import { isSkipped, localText, momentOfLocal, turnOf } from "../src/format/local";
import { clockTime, dayTime, moment } from "../src/format/times";

const FIRST = Date.parse("2027-10-31T00:30:00Z");
const SECOND = Date.parse("2027-10-31T01:30:00Z");

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
  expect([said("2027-10-31T03:00"), said("2027-03-28T03:00"), said("")]).toEqual([{}, {}, {}]);
});

test("times that come twice are shown with their zone", () => {
  expect(dayTime(FIRST)).toMatch(/02:30 (GMT\+2|CEST)$/);
  expect(dayTime(SECOND)).toMatch(/02:30 (GMT\+1|CET)$/);
  expect(clockTime(SECOND, SECOND)).toMatch(/^02:30 (GMT\+1|CET)$/);
  expect(moment(FIRST, FIRST)).toMatch(/^02:30:00 (GMT\+2|CEST)$/);
  expect(dayTime(SECOND + 3_600_000)).toMatch(/03:30$/);
});
