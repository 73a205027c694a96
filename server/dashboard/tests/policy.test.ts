import { expect, test } from "vitest";
import { movedTo } from "../src/admin/policy/draft";
import { ratesOf, ratesText } from "../src/admin/policy/prices";
import { inputOf, policyOf } from "../src/admin/policy/settings";

test("only the edits of an old version are applied to a newer one", () => {
  const before = { order: "fcfs", backfill_depth: "10", placement: "pack" };
  const draft = { ...before, backfill_depth: " 42.0" };
  const now = { order: "gang", backfill_depth: "11", placement: "pack" };
  expect(movedTo(now, before, draft)).toEqual({ order: "gang", backfill_depth: "42", placement: "pack" });
  expect(movedTo(now, before, before)).toEqual(now);
});

test("a saved duration equals the server's value in another notation", () => {
  const before = { half_life: "7d", backfill_depth: "10" };
  const now = { half_life: "2h30m", backfill_depth: "10" };
  expect(movedTo(now, before, { ...before, half_life: "2h30" })).toEqual(now);
});

test("prices are edited as one line", () => {
  const line = "0.5 pool=night shift hours=20-7; 2.5 model=H100 80GB; 1";
  const rates = ratesOf(line);
  expect(rates).toEqual([
    { price: 0.5, model: null, pool: "night shift", from_hour: 20, until_hour: 7 },
    { price: 2.5, model: "H100 80GB", pool: null, from_hour: 0, until_hour: 24 },
    { price: 1, model: null, pool: null, from_hour: 0, until_hour: 24 },
  ]);
  expect(ratesText(rates as Parameters<typeof ratesText>[0])).toBe(line);
  expect(inputOf([{ path: "prices.rates", from: "", to: "2" }], 3)).toEqual({
    expected_version: 3,
    prices: { rates: ratesOf("2") },
  });
  expect(ratesOf("")).toEqual([]);
});

test.each(["cheap", "1 for=H100", "-1", "1 hours=24-25", "1 model=A model=B", "1 hours=now", "1, 2"])(
  "an invalid price is not sent: %s",
  (line) => expect(ratesOf(line)).toBeNull(),
);

test("prices in a policy text are checked too", () => {
  expect(policyOf("prices.currency=E1").wrong).toBe("prices.currency: Enter 1 to 8 letters.");
  expect(policyOf("prices.at_budget=low").input).toEqual({ prices: { at_budget: "low" } });
});
