import { expect, test } from "vitest";
import { againOf, sentencesOf, type Effect } from "../src/admin/effect";

const NOTHING: Effect = {
  __typename: "WhatIf",
  restarts: [],
  starts: [],
  later: [],
  later_count: 0,
  sooner: [],
  session: null,
  session_start: null,
  sooner_count: 0,
  wait_before: null,
  wait_after: null,
  note: null,
};
const OTHER = {
  session_id: "ses_1",
  owner: "bob",
  name: null,
  state: "running",
  gpus: 1,
  until: null,
  is_overdue: false,
  preemptible: false,
} as const;

test("the effect of a change in sentences", () => {
  expect(sentencesOf(NOTHING)).toEqual(["No waiting session would start later or sooner."]);
  expect(
    sentencesOf({
      ...NOTHING,
      restarts: [{ after: null, session: OTHER }],
      later_count: 2,
      wait_before: 3600,
      wait_after: 7200,
    }),
  ).toEqual([
    "1 session would be preempted and queued again.",
    "2 sessions would start later.",
    "Mean time until they start: 1 h now, 2 h then, if all sessions run for as long as planned.",
  ]);
});

test("an unknown effect is stated", () => {
  expect(sentencesOf({ ...NOTHING, note: "later starts are unknown" })).toEqual(["later starts are unknown."]);
  const stopped = "scheduling is stopped, so nothing starts";
  expect(sentencesOf({ ...NOTHING, note: stopped })).toEqual([
    "No waiting session would start later or sooner.",
    `${stopped}.`,
  ]);
});

test("a preempted session says when it would run again", () => {
  const now = Date.parse("2026-01-02T10:00:00Z");
  expect(againOf({ after: null, session: OTHER }, now)).toBe("when it would run again is unknown");
  expect(againOf({ after: "2026-01-02T10:00:00Z", session: OTHER }, now)).toBe("runs again now");
  expect(againOf({ after: "2026-01-02T11:00:00Z", session: OTHER }, now)).toMatch(/^runs again at /);
});
