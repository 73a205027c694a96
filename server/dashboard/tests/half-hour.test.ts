import { expect, test, vi } from "vitest";

// Before the imports, as formats keep the zone in which they were made. The zone is 5 h 45 min ahead of UTC.
vi.hoisted(() => {
  process.env["TZ"] = "Asia/Kathmandu";
});

import { localText, nextHour } from "../src/format/local";

test("the next full hour is one of the viewer's clock", () => {
  const at = (utc: string) => localText(nextHour(Date.parse(utc)));
  expect(at("2027-03-01T08:20:30Z")).toBe("2027-03-01T15:00");
  expect(at("2027-03-01T09:14:59Z")).toBe("2027-03-01T15:00");
  expect(at("2027-03-01T09:15:00Z")).toBe("2027-03-01T16:00");
});
