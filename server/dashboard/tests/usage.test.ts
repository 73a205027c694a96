import { expect, test } from "vitest";
import * as holdings from "../src/usage/holdings";
import { csvOf, jointUsesOf, waitQuantile, waitsOf } from "../src/usage/figures";
import { timesOf } from "../src/history/course";
import { faultOf, periodOf, rangeOf, RANGES, sinceOf } from "../src/usage/ranges";

const HISTORY: holdings.UsageHistory = {
  started_at: "1970-01-01T01:00:00Z",
  step: 3_600,
  points: 2,
  warning: null,
  series: [
    { name: "ada", gpu_hours: [4, 2], utilization: [50, null] },
    { name: "ben", gpu_hours: [1, 0], utilization: [100, null] },
    { name: null, gpu_hours: [0, 1], utilization: [null, 10] },
  ],
};

test("bars are stacked, and mean utilization is weighted by hours", () => {
  const all = holdings.holdingsOf(HISTORY);
  expect(all.map(({ name }) => name)).toEqual(["ada", "ben", holdings.OTHERS]);
  expect(timesOf(HISTORY)).toEqual([3_600, 7_200]);
  expect(holdings.stacked(all)).toEqual([
    [5, 3],
    [1, 1],
    [0, 1],
  ]);
  expect(holdings.together(all)).toEqual({ hours: [5, 3], busy: [60, 10] });
  expect(all.map(holdings.efficiencyOf)).toEqual([50, 100, 10]);
  expect(holdings.efficiencyOf({ hours: [0], busy: [null] })).toBeNull();
});

test("with more holders than colours, the smallest are combined", () => {
  const series = Array.from({ length: 12 }, (_, index) => ({
    name: `u${index}`,
    gpu_hours: [12 - index],
    utilization: [1],
  }));
  const all = holdings.holdingsOf({ ...HISTORY, points: 1, series });
  expect([all.length, all.at(-1)?.name, all.at(-1)?.hours]).toEqual([10, holdings.OTHERS, [6]]);
  expect(holdings.stacked(all)[0]).toEqual([78]);
});

test("one CSV line per step and holder with usage", () => {
  expect(holdings.csvOf(HISTORY, "user").split("\r\n")).toEqual([
    "from,seconds,user,gpu_hours,utilization_pct",
    "1970-01-01T01:00:00.000Z,3600,ada,4,50",
    "1970-01-01T02:00:00.000Z,3600,ada,2,",
    "1970-01-01T01:00:00.000Z,3600,ben,1,100",
    "1970-01-01T02:00:00.000Z,3600,others,1,10",
    "",
  ]);
});

test("every range begins with a whole step and ends with the current one", () => {
  const now = Date.parse("2026-05-02T12:34:56Z");
  expect(sinceOf("day", now)).toBe("2026-05-01T13:00:00.000Z");
  expect(sinceOf("week", now)).toBe("2026-04-25T18:00:00.000Z");
  expect(sinceOf("month", now)).toBe("2026-04-03T00:00:00.000Z");
  expect(RANGES.week.s % RANGES.week.stepS).toBe(0);
});

const ended = (queued: number, started: number | null, end: number) => ({
  id: "ses_1",
  state: "completed" as const,
  queued_at: new Date(queued * 1000).toISOString(),
  started_at: started === null ? null : new Date(started * 1000).toISOString(),
  ended_at: new Date(end * 1000).toISOString(),
});

test("the histogram of waits", () => {
  const past = [ended(0, 0.5, 10), ended(0, 30, 60), ended(0, 7_200, 7_300), ended(0, null, 5)];
  expect(waitsOf(past).filter((bin) => bin.count)).toEqual([
    { label: "under 1 s", count: 1 },
    { label: "10 s to 1 min", count: 1 },
    { label: "1 to 6 h", count: 1 },
  ]);
  expect([waitQuantile(past, 0.5), waitQuantile([], 0.5)]).toEqual([30, null]);
});

test("CSV cells are quoted where needed, and formulas are escaped", () => {
  const row = { gpu_hours: 1.5, gpu_hours_month: 1, gpu_hours_decayed: 0.5, share: 1 };
  expect(csvOf([{ ...row, project: 'a "b", c', user: "=cmd()" }]).split("\r\n")[1]).toBe(
    `"a ""b"", c",'=cmd(),1.5,1,0.5,1`,
  );
});

test("an address without a valid range shows a day", () => {
  expect(["week", "decade", "toString", null].map(rangeOf)).toEqual(["week", "day", "day", "day"]);
});

test("an address whose period is not shown says why", () => {
  const now = Date.parse("2026-05-02T12:34:00Z");
  const of = (search: string) => faultOf(new URLSearchParams(search), now);
  expect(of("range=hour")).toBeNull();
  expect(of("from=2026-05-01T00:10:00Z&to=2026-06-02T00:00:00Z")).toBeNull();
  expect(of("from=2027-05-01&to=2027-05-08")).toBe(
    "The period in the address begins in the future: the last 24 h are shown.",
  );
  expect(of("range=week&from=2026-05-02&to=2026-05-01")).toMatch(/^The address needs .*: the last 7 d are shown\.$/);
  expect(of("from=yesterday")).not.toBeNull();
});

test("the period in an address", () => {
  const now = Date.parse("2026-05-02T12:34:00Z");
  const of = (search: string) => periodOf(new URLSearchParams(search), now);
  expect(of("range=hour")).toEqual({
    id: "hour",
    since: "2026-05-02T11:35:00.000Z",
    until: null,
    stepS: 300,
    points: 12,
    each: "5 minutes",
  });
  expect(of("from=2026-05-01T00:10:00Z&to=2026-05-02T00:00:00Z")).toEqual({
    id: "custom",
    since: "2026-05-01T00:00:00.000Z",
    until: "2026-05-02T00:00:00.000Z",
    stepS: 3600,
    points: 24,
    each: "hour",
  });
  for (const nonsense of ["from=x&to=y", "from=2026-05-02&to=2026-05-01", "from=2027-01-01&to=2027-01-02"])
    expect(of(nonsense).id).toBe("day");
});

test("GPUs of a node with the same users are one row", () => {
  const gpu = (name: string, utilization_pct: number | null, ...users: string[]) => ({
    node_id: "n",
    gpu_id: name,
    hostname: name.startsWith("other") ? "gpu02" : "gpu01",
    name,
    utilization_pct,
    people: users.map((user) => ({ user, processes: user === "eve" ? 2 : 0 })),
  });
  const found = jointUsesOf([
    gpu("cuda0", 80, "ada"),
    gpu("cuda1", null),
    gpu("cuda2", 40, "ada"),
    gpu("cuda3", null, "ada", "eve"),
    gpu("other0", 10, "ada"),
  ]);
  expect(found).toEqual([
    { hostname: "gpu01", gpus: ["cuda0", "cuda2"], usePct: 60, who: "ada" },
    { hostname: "gpu01", gpus: ["cuda1"], usePct: null, who: "free" },
    { hostname: "gpu01", gpus: ["cuda3"], usePct: null, who: "ada, eve (2 processes)" },
    { hostname: "gpu02", gpus: ["other0"], usePct: 10, who: "ada" },
  ]);
});
