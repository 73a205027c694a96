import { expect, test } from "vitest";
import { EMPTY } from "../src/submit/form";
import { parametersOf, withValues } from "../src/submit/parameters";

test("parameters are found in all texts, with the first default, and replaced", () => {
  const form = { ...EMPTY, command: "train --lr {{lr}} --gpus {{gpus=2}}", amount: "{{gpus}}", name: "{{lr=0.1}}" };
  const found = parametersOf(form).map(({ name, fallback }) => `${name}=${fallback}`);
  expect(found.toSorted()).toEqual(["gpus=2", "lr=0.1"]);
  const filled = withValues(form, { lr: "1", gpus: "4" });
  expect([filled.command, filled.amount, filled.name]).toEqual(["train --lr 1 --gpus 4", "4", "1"]);
  expect(parametersOf(EMPTY)).toEqual([]);
});
