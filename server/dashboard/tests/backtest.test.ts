import { expect, test } from "vitest";
import {
  csvOf,
  fidelityOf,
  groupsOf,
  inputOf,
  isOpen,
  movesOf,
  sinceOf,
  spanWrong,
  timesOf,
  waits,
  type Report,
  type Row,
} from "../src/backtest/figures";

const SPREAD = { mean: 60, p95: 120, max: 180 };
const group = (name: string, wait_before: number, wait: number) => ({
  kind: "user",
  name,
  sessions: 1,
  wait,
  wait_before,
});

function row(label: string, more: Partial<Row> = {}): Row {
  return {
    label,
    sessions: 2,
    wait: SPREAD,
    completion: SPREAD,
    slowdown: 1.5,
    utilization: 0.5,
    preemptions: 0,
    fairness_users: 1,
    fairness_projects: 1,
    groups: [],
    winners: [],
    winners_count: 0,
    losers: [],
    losers_count: 0,
    utilization_over_time: [],
    waiting_over_time: [],
    wait_quantiles: [],
    ...more,
  };
}

const report = (rows: Row[]): Report => ({
  sessions: 2,
  reproduced: 2,
  different_count: 1,
  different: [],
  notes: [],
  rows,
});

test("a backtest of the last days begins that many days before now", () => {
  const now = Date.parse("2026-03-08T00:00:00Z");
  expect(inputOf([], 7, now).since).toBe("2026-03-01T00:00:00.000Z");
});

test("the sentence on fidelity counts the sessions that started elsewhere", () => {
  expect(fidelityOf(report([]))).toContain("2 of 3 sessions");
});

test("winners and losers are counted; without any, it says so", () => {
  expect(movesOf(row("x", { winners_count: 3, losers_count: 1 }))).toBe("3 sessions wait less, 1 waits longer.");
  expect(movesOf(row("x", { winners_count: 1, losers_count: 2 }))).toBe("1 session waits less, 2 wait longer.");
  expect(movesOf(row("x"))).toBe("No session waits a minute more or less.");
});

test("groups are sorted by loss, largest first", () => {
  const found = groupsOf(row("x", { groups: [group("ann", 60, 30), group("bob", 60, 90), group("cat", 60, 60)] }));
  expect(found.map((one) => one.name)).toEqual(["bob", "cat", "ann"]);
  expect(waits(60, 90)).toContain("→");
});

test("the times of equal parts are their midpoints", () => {
  expect(timesOf("1970-01-01T00:00:00Z", "1970-01-01T00:00:40Z", 2)).toEqual([10, 30]);
});

test("a label with a comma is quoted in the CSV", () => {
  const lines = csvOf(report([row('order=fcfs, "new"')])).split("\n");
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatch(/^"order=fcfs, ""new""",60,120,180,/);
});

test("a backtest is open until it has ended", () => {
  expect(["queued", "running", "completed", "failed", "canceled"].filter(isOpen)).toEqual(["queued", "running"]);
});

test("only a length that the server runs again is asked for", () => {
  expect(["365d", " 1y ", "7d", "0.5"].map(spanWrong)).toEqual([undefined, undefined, undefined, undefined]);
  for (const text of ["366d", "9999y", "0", "", "soon"]) expect(spanWrong(text)).toContain("365 days");
  expect(sinceOf("2d", Date.parse("2027-03-03T00:00:00Z"))).toBe("2027-03-01T00:00:00.000Z");
});
