import { expect, test, vi } from "vitest";

// Before the imports, as formats keep the zone in which they were made. The clocks change by 30 minutes there.
vi.hoisted(() => {
  process.env["TZ"] = "Australia/Lord_Howe";
});

import { changeText, isSkipped, localText, turnOf } from "../src/format/local";

const CHANGE = Date.parse("2027-04-03T15:00:00Z");
const MINUTE_MS = 60_000;

test("of a clock change of 30 minutes, only the times of those minutes come twice", () => {
  const turns = [-31, -30, -1, 0, 29, 30].map((minutes) => turnOf(CHANGE + minutes * MINUTE_MS));
  expect(turns).toEqual([null, "first", "first", "second", "second", null]);
  expect(localText(CHANGE - 15 * MINUTE_MS)).toBe(localText(CHANGE + 15 * MINUTE_MS));
  expect(changeText("2027-04-04T01:45", CHANGE + 15 * MINUTE_MS).hint).toContain("the second is meant");
  expect(["2027-10-03T01:59", "2027-10-03T02:15", "2027-10-03T02:30"].map(isSkipped)).toEqual([false, true, false]);
});
