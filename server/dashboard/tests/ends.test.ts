import { expect, test } from "vitest";
import { endOf } from "../src/session/ends";

const NOW = Date.parse("2026-01-02T10:00:00Z");
const SESSION = {
  started_at: "2026-01-02T09:00:00Z",
  time_limit: null,
  reserve_until: "2026-01-02T11:00:00Z",
  order_estimate: null,
};
const ESTIMATE = { explanation: "mean of the last 6 runs of ben: 2 h" };

test("a limit is exact", () => {
  const { text, from } = endOf({ ...SESSION, time_limit: 7200, order_estimate: ESTIMATE }, NOW);
  expect(text).not.toContain("about");
  expect(from).toBe("its time limit");
});

test("an expected run time is inexact", () => {
  const { text, from } = endOf({ ...SESSION, time_limit: 86_400, order_estimate: ESTIMATE }, NOW);
  expect(text).toMatch(/^about /);
  expect(from).toBe(ESTIMATE.explanation);
});

test("without a limit and past runs the end is unknown", () => {
  expect(endOf(SESSION, NOW)).toEqual({ text: "—" });
});

test("a session that still runs after its expected end is overdue", () => {
  const late = { ...SESSION, reserve_until: "2026-01-02T09:30:00Z", order_estimate: ESTIMATE };
  expect(endOf(late, NOW).text).toBe("overdue");
});
