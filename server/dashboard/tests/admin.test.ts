import { describe, expect, test } from "vitest";
import type { PolicyPartsFragment } from "../src/generated/graphql";
import { lifetimeOf } from "../src/admin/access/draft";
import { endOf, isSuspended } from "../src/admin/access/keys";
import { restored, storedOf } from "../src/admin/policy/draft";
import { changesOf, inputOf, valuesOf, wrongsOf } from "../src/admin/policy/settings";
import * as quotas from "../src/admin/quotas/draft";
import { countText, nowText, useOf } from "../src/admin/quotas/use";

const IDLE = { action: "off", tell: 1800, again: 1800, act: 1800, keep: 14_400, projects: [] } as const;
const POLICY: PolicyPartsFragment = {
  prices: { rates: [], currency: "EUR", utc_offset_minutes: 0, at_budget: "hold" },
  version: 4,
  order: "fair_share",
  backfill: "easy",
  backfill_depth: 100,
  placement: "least_waste",
  allocation: "evenly",
  allow_fragmentation: false,
  numa: "prefer",
  weights: {
    age: 1,
    fair: 1,
    short: 2,
    short_half: 14_400,
    priority: 1,
    level: 86_400,
    sjf_age_pct: 10,
    wait_bound: 0,
  },
  half_life: 604_800,
  charges: { accelerators: [], cpu_milli: 5, mem_gib_milli: 0 },
  pools: [{ name: "default", default_limit: null, cpu_per_gpu: null, mem_per_gpu: null, idle: null }],
  preemption: { preempt: "preemptible", run_min: 600, preemptions_max: 3, grace: 30, restart: 60, idle: IDLE },
  retries: { tries_min: 3, wait_first: 1, wait_max: 300, jitter_pct: 25 },
  user_priority_max: "normal",
  changed_at: null,
};

test("only changed settings are sent, with their base version", () => {
  const before = valuesOf(POLICY);
  const after = { ...before, order: "priority", "weights.age": "3", "weights.fair": "0", allow_fragmentation: "true" };
  const changes = changesOf(before, after);
  expect(changes.map(({ path, from, to }) => [path, from, to])).toContainEqual(["weights.age", "1", "3"]);
  expect(inputOf(changes, 4)).toEqual({
    expected_version: 4,
    order: "priority",
    allow_fragmentation: true,
    weights: { age: 3, fair: 0 },
  });
  expect(changesOf(before, before)).toEqual([]);
  expect(Object.keys(wrongsOf({ ...before, half_life: "long" }))).toEqual(["half_life"]);
});

test("policy durations take the usual units and are sent as seconds", () => {
  const before = valuesOf(POLICY);
  const after = { ...before, half_life: "2w", "weights.wait_bound": "2h30", "preemption.grace": "45" };
  expect(wrongsOf(after)).toEqual({});
  expect(inputOf(changesOf(before, after), 4)).toEqual({
    expected_version: 4,
    half_life: 1_209_600,
    weights: { wait_bound: 9_000 },
    preemption: { grace: 45 },
  });
  expect(Object.keys(wrongsOf({ ...before, "weights.age": "2h" }))).toEqual(["weights.age"]);
  expect(wrongsOf({ ...before, backfill_depth: "1.5" })).toEqual({
    backfill_depth: "Enter a whole number, 0 or more.",
  });
  expect(wrongsOf({ ...before, backfill_depth: "9999999999" })).toEqual({
    backfill_depth: "Enter at most 2147483647.",
  });
});

test.each([
  ["", null],
  ["90", 90 * 86_400],
  ["36h", 129_600],
  ["12w", 7_257_600],
  ["soon", NaN],
])("a key lifetime of %j is %j seconds", (text, seconds) => expect(lifetimeOf(text)).toEqual(seconds));

test("a typed quota becomes API input", () => {
  const draft = {
    ...quotas.NEW,
    name: "ada",
    max: { gpus: "4", cpus: "", mem: "64g", other: "rocm.device 2" },
    hours: "100",
  };
  expect(quotas.wrongsOf(draft)).toEqual({});
  expect(quotas.inputOf(draft)).toMatchObject({
    name: "ada",
    max_slots: [
      { slot: "cuda.device", amount: "4" },
      { slot: "mem", amount: "64g" },
      { slot: "rocm.device", amount: "2" },
    ],
    own_slots: [],
    max_queued: null,
    gpu_hours_per_month: 100,
    expected_version: 0,
  });
  expect(
    Object.keys(
      quotas.wrongsOf({
        ...draft,
        name: "",
        max: { gpus: "some", cpus: "1.5", mem: "much", other: "rocm.device" },
        weight: "x",
      }),
    ),
  ).toEqual(["name", "max.gpus", "max.cpus", "max.mem", "max.other", "weight"]);
  expect(quotas.wrongsOf({ ...quotas.NEW, scope: "cluster" })).toEqual({});
});

test("an unlimited amount stays unlimited", () => {
  const draft = quotas.draftOf({
    scope: "user",
    name: "ada",
    version: 3,
    max_slots: [
      { slot: "cuda.device", amount: "unlimited" },
      { slot: "cpu", amount: "unlimited" },
    ],
    own_slots: [],
    max_queued: null,
    gpu_hours_per_month: null,
    weight: null,
    budget: null,
  } as never);
  expect(quotas.wrongsOf(draft)).toEqual({});
  expect(quotas.inputOf(draft).max_slots).toEqual([
    { slot: "cuda.device", amount: "unlimited" },
    { slot: "cpu", amount: "unlimited" },
  ]);
});

test("the quota of an API key has a budget alone, whatever was typed before", () => {
  const draft = { ...quotas.NEW, scope: "key" as const, name: " key_1 ", queued: "5x", weight: "2", budget: "250" };
  expect(quotas.wrongsOf(draft)).toEqual({});
  expect(quotas.inputOf(draft)).toEqual({
    ...quotas.inputOf({ ...quotas.NEW, scope: "key", name: "key_1" }),
    budget: 250,
  });
  expect(quotas.wrongsOf({ ...draft, name: "" })).toEqual({ name: "Enter the id of the API key." });
});

test("a stored quota fills the form", () => {
  const stored = {
    scope: "user",
    name: "ada",
    version: 3,
    max_slots: [
      { slot: "cuda.shares", amount: "0.50" },
      { slot: "cpu", amount: "16" },
    ],
    own_slots: [
      { slot: "cuda.device", amount: "1" },
      { slot: "cuda.shares", amount: "0.50" },
    ],
    max_queued: null,
    gpu_hours_per_month: null,
    weight: null,
    budget: null,
    changed_at: "2026-01-05T12:00:00Z",
  } as const;
  const draft = quotas.draftOf(stored);
  expect(draft.max).toEqual({ gpus: "0.5", cpus: "16", mem: "", other: "" });
  expect(draft.own.other).toBe("cuda.device 1, cuda.shares 0.50");
  expect(quotas.inputOf(draft).max_slots).toEqual([
    { slot: "cuda.shares", amount: "0.5" },
    { slot: "cpu", amount: "16" },
  ]);
});

test("edits of a quota that someone else changed or removed are kept", () => {
  const quota = (part: object) =>
    ({
      scope: "user",
      name: "ada",
      version: 1,
      max_slots: [{ slot: "cpu", amount: "16" }],
      own_slots: [],
      max_queued: 3,
      gpu_hours_per_month: null,
      weight: null,
      budget: null,
      ...part,
    }) as unknown as quotas.Quota;
  const [before, newest] = [quotas.draftOf(quota({})), quota({ version: 2, max_queued: 4 })];
  const draft = { ...before, hours: "50", max: { ...before.max, gpus: "2" } };
  const behind = (one: quotas.Draft, all: quotas.Quota[]) => quotas.behindText(one, quotas.changedBy(one, all));
  expect(behind(draft, [quota({})])).toBeNull();
  expect(behind(draft, [newest])).toBe("Someone else changed this quota meanwhile.");
  expect(behind(draft, [])).toBe("Someone else removed this quota meanwhile.");
  expect(behind({ ...quotas.NEW, name: " ada " }, [newest])).toBe("There is a quota of ada already.");
  expect(behind({ ...quotas.NEW, name: "ad" }, [newest])).toBeNull();
  const moved = quotas.rebased(newest, before, draft);
  expect(moved).toEqual({ ...draft, queued: "4", version: 2 });
  expect(behind(moved, [newest])).toBeNull();
  expect(quotas.rebased(undefined, before, draft)).toMatchObject({ name: "ada", hours: "50", version: 0 });
});

test("a new name of a user or project is remarked on", () => {
  const remark = (scope: "user" | "project" | "key", name: string) =>
    quotas.newText({ ...quotas.NEW, scope, name }, ["anna", "vision"]);
  expect(remark("user", "ana")).toBe("There is no user ana yet. The quota is kept for when they are created.");
  expect(remark("project", "vison")).toBe("Project vison is new: its quota creates it.");
  expect([remark("user", " anna "), remark("user", ""), remark("project", "default")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test("current usage is shown beside a limit, with a remark if it exceeds it", () => {
  const uses = [
    {
      scope: "user",
      name: "ada",
      held: [{ slot: "cuda.shares", amount: "2.50" }],
      waiting: 3,
      gpu_hours_month: 7.25,
      cost_month: 0,
    },
  ] as const;
  const use = useOf(uses, "user", " ada");
  expect(nowText("gpus", use, "")).toBe("Now 2.5 GPUs held.");
  expect(nowText("gpus", use, "2")).toContain("more than this limit");
  expect(nowText("mem", useOf(uses, "project", "x"), "1g")).toBe("Now 0 B held.");
  expect(countText("waiting", use.waiting, "3")).toBe("Now 3 waiting.");
  expect(countText("waiting", use.waiting, "2")).toContain("more than this limit");
});

test("stored policy edits are applied to the newest values but keep their base version", () => {
  const edited = { ...valuesOf(POLICY), backfill_depth: "7", half_life: "some" };
  const stored = storedOf(POLICY, changesOf(valuesOf(POLICY), edited));
  expect(stored).toEqual({ version: 4, changed_at: null, edits: { backfill_depth: "7", half_life: "some" } });
  const newest = { ...POLICY, version: 5, changed_at: "2026-07-01T00:00:00Z", placement: "spread" as const };
  const { base, draft } = restored(newest, { ...stored, edits: { ...stored.edits, unknown: "1" } });
  expect(draft).toEqual({ ...edited, placement: "spread" });
  expect(base).toEqual({ ...newest, version: 4, changed_at: null });
  expect(restored(newest, null)).toEqual({ base: newest, draft: valuesOf(newest) });
});

describe("a key", () => {
  const now = Date.parse("2026-07-01T00:00:00Z");
  const users = [
    { name: "vera", disabled: true },
    { name: "ada", disabled: false },
  ];
  const key = { user: "ada", revoked_at: null, expires_at: null, is_valid: true };
  const rejected = { ...key, user: "vera", is_valid: false };

  test.each([
    [key, "never", false],
    [{ ...key, expires_at: "2026-08-01T00:00:00Z" }, "2026-08-01", false],
    [{ ...key, expires_at: "2026-06-01T00:00:00Z", is_valid: false }, "expired", false],
    [{ ...key, revoked_at: "2026-06-02T00:00:00Z", is_valid: false }, "revoked 2026-06-02", false],
    [rejected, "user disabled", true],
    [{ ...rejected, expires_at: "2026-08-01T00:00:00Z" }, "user disabled", true],
    [{ ...rejected, expires_at: "2026-06-01T00:00:00Z" }, "expired", false],
    [{ ...rejected, revoked_at: "2026-06-02T00:00:00Z" }, "revoked 2026-06-02", false],
  ])("shows its expiry or why it is rejected: %#", (one, end, suspended) => {
    expect(endOf(one, users, now)).toBe(end);
    expect(isSuspended(one, users, now)).toBe(suspended);
  });
});
