import { describe, expect, test } from "vitest";
import { endOf } from "../src/session/ends";

const NOW = Date.parse("2026-01-02T10:00:00Z");
const SESSION = {
  state: "running" as const,
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

test("a preempted session ends by the end of its grace period", () => {
  const leaving = { ...SESSION, state: "preempting" as const };
  expect(endOf(leaving, NOW)).toEqual({ text: expect.stringMatching(/^by \d/), from: "its grace period" });
  expect(endOf({ ...leaving, reserve_until: "2026-01-02T09:59:00Z" }, NOW).text).toBe("overdue");
});

test("without a limit and past runs the end is unknown", () => {
  expect(endOf(SESSION, NOW)).toEqual({ text: "—" });
});

describe("after its expected end", () => {
  const late = { ...SESSION, reserve_until: "2026-01-02T09:30:00Z", order_estimate: ESTIMATE };
  const longer = `it has run longer than expected (${ESTIMATE.explanation})`;

  test("a session without a time limit is not overdue", () =>
    expect(endOf(late, NOW)).toEqual({ text: "unknown", from: longer }));

  test("a session ends by its time limit", () => {
    const { text, from } = endOf({ ...late, time_limit: 7200 }, NOW);
    expect(text).toMatch(/^by \d\d:\d\d:\d\d$/);
    expect(from).toBe(`its time limit; ${longer}`);
  });
});

test("a session that still runs after its time limit is overdue", () => {
  const late = { ...SESSION, time_limit: 1800, reserve_until: "2026-01-02T09:30:00Z" };
  expect(endOf(late, NOW).text).toBe("overdue");
  expect(endOf({ ...late, reserve_until: "2026-01-02T09:10:00Z", order_estimate: ESTIMATE }, NOW).text).toBe("overdue");
});
