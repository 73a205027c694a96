import { expect, test } from "vitest";
import { EMPTY, wrongsOf, type Field, type Form } from "../src/submit/form";
import { correctText, LABELS } from "../src/submit/labels";
import { inForm, objectedField, objectionOf, shownWrongs } from "../src/submit/objections";

const form = (part: Partial<Form> = {}): Form => ({ ...EMPTY, command: "true", ...part });

test("fields to correct have the form's names and order", () => {
  expect(correctText(wrongsOf(form({ command: "" })))).toBe("1 field to correct: Command.");
  const several = wrongsOf(
    form({ secrets: "hf.token", amount: "0", topology: "require", kernelsMin: "1", kernels: "2" }),
  );
  expect(correctText(several)).toBe("3 fields to correct: GPUs, Network switches, Secrets.");
});

test.each<[string, string | null, Field | null, Partial<Form>]>([
  ["cluster_size: 100000 is more than 4096", "cluster_size", "kernels", {}],
  ["cluster_size_min: 5 is more than 4", "cluster_size_min", "kernelsMin", {}],
  ["time_limit: it is too long", "time_limit", "limit", {}],
  ["pool: there is no nope; the pools are default", "pool", "pool", {}],
  ["limits: 100000000 is more than 1000000", "limits", "openFiles", { openFiles: "100000000" }],
  ["depends_on: there is no session ses_1", null, "dependencies", {}],
  ["slots: cuda.device: a kernel asks for 99, and the largest agent has 8", null, "amount", {}],
  ["slots: mem: a kernel asks for 1p, and the largest agent has 512g", null, "mem", {}],
  ["cpu: 0.3 is finer than the smallest step, 1", "slots", "cpu", {}],
  ["slots: no agent has slot rocm.shares; known slots: cpu", null, "otherSlots", { otherSlots: "rocm.shares=0.5" }],
  ["slots: the request is empty; ask for example for cpu 1", "slots", "cpu", { slot: "" }],
  ["Project vision may hold 4 GPUs and holds 4.", null, null, {}],
  ["session_id: it is unknown here", null, null, {}],
])("%s", (message, field, expected, part) =>
  expect(objectedField(objectionOf({ message, field }), form(part))).toBe(expected),
);

test("changed fields show their errors, and a field shows the server's error about it", () => {
  const wrongs = wrongsOf(form({ command: "", cpu: "many" }));
  const objection = objectionOf({ message: "name: 500 characters are more than 256", field: "name" });
  expect(Object.keys(shownWrongs(wrongs, new Set(["cpu"]), objection, form()))).toEqual(["cpu", "name"]);
  expect(shownWrongs(wrongs, new Set(), null, form())).toEqual({});
});

test.each([
  ["time_limit: it is too long", "It is too long"],
  ["cluster_size: 100000 is more than 4096", "100000 is more than 4096"],
  ["slots: mem: a kernel asks for 1p", "Memory: a kernel asks for 1p"],
  ["secrets: ann has no secret HUB_TOKEN", "ann has no secret HUB_TOKEN"],
  [
    "project: kim is not a member of vision; your projects are audio",
    "kim is not a member of vision; your projects are audio",
  ],
])("beside its field, %s is %s", (message, shown) =>
  expect(Object.values(shownWrongs({}, new Set(), objectionOf({ message }), form()))).toEqual([shown]),
);

test.each([
  [
    "slots: cuda.device: a kernel asks for 9; ask for less, or for more kernels with cluster_size",
    'cuda.device: a kernel asks for 9; ask for less, or for more kernels with "Kernels"',
  ],
  ["time_limit: it is too long", "Time limit: it is too long"],
  ["idempotency_key: it is too long", "Idempotency key: it is too long"],
  ["pool: there is no nope; the pools are default", "Pool: there is no nope; the pools are default"],
  ["Project vision may hold 4 GPUs and holds 4.", "Project vision may hold 4 GPUs and holds 4."],
])("in the words of the form, %s is %s", (message, shown) => expect(inForm(message)).toBe(shown));

test("every field that can be invalid has a name", () => {
  const wrong = form({ command: "", cpu: "x", mem: "x", retries: "x", tags: "x", grace: "x", apps: "X", folder: "x" });
  expect(Object.keys(wrongsOf(wrong)).filter((field) => !(field in LABELS))).toEqual([]);
});
