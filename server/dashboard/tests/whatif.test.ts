import { expect, test } from "vitest";
import { policyOf } from "../src/admin/policy/settings";
import { bandText, shortStart, variantsOf, type Start } from "../src/submit/starts";
import { inputOf, NOTHING, questionOf, searchOf, wrongsOf } from "../src/whatif/question";

test("a question is stored in the address", () => {
  const question = { ...NOTHING, gpus: "2", limit: "2h", drain: "a1", policy: "order=sjf\nweights.age=8" };
  expect(questionOf(new URLSearchParams(searchOf(question)))).toEqual(question);
  expect(searchOf(NOTHING)).toBe("");
});

test("a question becomes API input", () => {
  expect(inputOf(NOTHING)).toBeNull();
  expect(inputOf({ ...NOTHING, gpus: "0.5", kernels: "2", limit: "90m" })).toEqual({
    session: {
      command: { argv: ["true"] },
      slots: [{ slot: "cuda.shares", amount: "0.5" }],
      cluster_size: 2,
      time_limit: 5400,
    },
  });
  expect(inputOf({ ...NOTHING, drain: "a1", evict: "1", like: "a2" })).toEqual({
    drain: "a1",
    evict: true,
    like: "a2",
    count: 1,
  });
});

test.each([
  [{ gpus: "many" }, "gpus"],
  [{ gpus: "1", kernels: "0" }, "kernels"],
  [{ gpus: "1", limit: "soon" }, "limit"],
  [{ like: "a1", count: "65" }, "count"],
  [{ policy: "colour=red" }, "policy"],
])("an invalid field is not sent: %j", (part, field) => {
  expect(Object.keys(wrongsOf({ ...NOTHING, ...part }))).toEqual([field]);
  expect(inputOf({ ...NOTHING, ...part })).toBeNull();
});

test("a policy is parsed from lines or a JSON document", () => {
  expect(policyOf("order=sjf\n weights.age = 8\nhalf_life=7d\nallow_fragmentation=true")).toEqual({
    input: { order: "sjf", weights: { age: 8 }, half_life: 604800, allow_fragmentation: true },
  });
  expect(policyOf('{"version": 3, "order": "sjf", "changed_at": null}')).toEqual({ input: { order: "sjf" } });
  expect(policyOf("{order}").wrong).toBe("This is not a JSON document.");
  expect(policyOf("order=alphabet").wrong).toContain("order is one of");
  expect(policyOf("half_life=long").wrong).toContain("half_life: Enter a duration");
});

test("a request is compared with other numbers of GPUs", () => {
  const request = {
    command: { shell: "train" },
    name: "x",
    slots: [
      { slot: "cuda.shares", amount: "0.5" },
      { slot: "cpu", amount: "4" },
    ],
  };
  expect(variantsOf(request, ["2"])).toEqual([
    {
      command: { shell: "train" },
      slots: [
        { slot: "cuda.device", amount: "2" },
        { slot: "cpu", amount: "4" },
      ],
    },
  ]);
  expect(variantsOf({ ...request, slots: [{ slot: "cpu", amount: "4" }] })).toEqual([]);
});

test("a start in a few words, with its band", () => {
  const now = Date.parse("2026-01-05T12:00:00Z");
  const at = (minutes: number) => new Date(now + minutes * 60_000).toISOString();
  const told = (part: object): Start => ({
    __typename: "PreviewForecast",
    forecast: {
      alike: null,
      alike_inside: null,
      missing: null,
      now: { age: 0, basis: "simulation", starts_now: false, start: null, unknown: null, ...part },
    },
  });
  expect(shortStart(told({ starts_now: true }), now)).toBe("now");
  const band = told({ start: { p10: at(10), p50: at(30), p90: at(60) } });
  expect(shortStart(band, now)).toMatch(/^about \d\d:30$/);
  expect(bandText(band, now)).toMatch(/^\d\d:10 to \d\d:00$/);
  const unknown = told({ unknown: "3 sessions have ended so far" });
  expect([shortStart(unknown, now), bandText(unknown, now)]).toEqual(["unknown", "3 sessions have ended so far"]);
  const refused: Start = { __typename: "ImpossibleRequest", message: "no agent has 8 GPUs" };
  expect([shortStart(refused, now), bandText(refused, now)]).toEqual(["not possible", "no agent has 8 GPUs"]);
});
