import { expect, test } from "vitest";
import { inputOf, isClickable, standingOf, whenOf, type OtherSession, type Remedy } from "../src/session/remedies";

const NOTHING = {
  slots: null,
  cluster_size: null,
  time_limit: null,
  preemptible: null,
  priority: null,
  project: null,
  pool: null,
  models: null,
};

function remedy(given: Partial<Remedy>): Remedy {
  return {
    kind: "time_limit",
    summary: "with a time limit of 1 h",
    starts_now: true,
    starts_at: "2026-11-23T15:00:00Z",
    applies: true,
    command: null,
    change: { ...NOTHING, time_limit: 3600 },
    delays: [],
    p50_earlier: null,
    ...given,
  };
}

const OTHER: OtherSession = {
  session_id: "ses_1",
  owner: "bob",
  name: null,
  state: "running",
  gpus: 2,
  until: null,
  is_overdue: true,
  preemptible: false,
};

test("a click sends only the change", () => {
  expect(inputOf("ses_1", remedy({}))).toEqual({ id: "ses_1", time_limit: 3600 });
  expect(inputOf("ses_1", remedy({ change: { ...NOTHING, models: [] } }))).toEqual({ id: "ses_1", models: [] });
  expect(inputOf("ses_1", remedy({ change: null }))).toBeNull();
});

test("only applicable remedies have a button", () => {
  expect(isClickable(remedy({}))).toBe(true);
  expect(isClickable(remedy({ applies: false }))).toBe(false);
  expect(isClickable(remedy({ kind: "release", change: null }))).toBe(true);
  expect(isClickable(remedy({ kind: "quota", change: null }))).toBe(false);
});

test("times and holders are in words", () => {
  expect(whenOf(remedy({}), 0)).toBe("now");
  expect(whenOf(remedy({ starts_now: false }), 0)).toMatch(/^by /);
  expect(standingOf(OTHER, 0)).toBe("2 GPUs, running, longer than expected");
  expect(standingOf({ ...OTHER, gpus: 0.5, is_overdue: false, preemptible: true }, 0)).toBe(
    "0.5 GPU, running, preemptible",
  );
});

test("a change that was forecast says how much earlier", () => {
  const sooner = remedy({ starts_now: false, p50_earlier: 3 * 3600 });
  expect(whenOf(sooner, 0)).toBe("about 3 h earlier (P50)");
  expect(isClickable(sooner)).toBe(true);
});
