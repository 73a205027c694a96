import { expect, test } from "vitest";
import { movedTo } from "../src/admin/policy/draft";

test("what was typed on an old version is put on a newer one, and nothing else of the old", () => {
  const before = { order: "fcfs", backfill_depth: "10", placement: "pack" };
  const draft = { ...before, backfill_depth: " 42.0" };
  const now = { order: "gang", backfill_depth: "11", placement: "pack" };
  expect(movedTo(now, before, draft)).toEqual({ order: "gang", backfill_depth: "42", placement: "pack" });
  expect(movedTo(now, before, before)).toEqual(now);
});

test("a duration that was saved is the number that the server shows", () => {
  const before = { half_life: "7d", backfill_depth: "10" };
  const now = { half_life: "2h30m", backfill_depth: "10" };
  expect(movedTo(now, before, { ...before, half_life: "2h30" })).toEqual(now);
});
