import { expect, test } from "vitest";
import { clockTime, withLocalTimes } from "../src/format/times";

const NOW = Date.parse("2026-01-02T10:00:00Z");

test("times of messages are shown in the viewer's zone", () => {
  const told = withLocalTimes("Booked until 2026-01-02 15:04 UTC, then 2026-01-05 08:00:30 UTC.", NOW);
  const [first, second] = ["2026-01-02T15:04:00Z", "2026-01-05T08:00:30Z"].map((at) => clockTime(at, NOW));
  expect(told).toBe(`Booked until ${first}, then ${second}.`);
  expect(withLocalTimes("at 10:00 UTC", NOW)).toBe("at 10:00 UTC");
});
