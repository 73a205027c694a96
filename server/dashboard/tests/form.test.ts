import { describe, expect, test } from "vitest";
import { fitOf } from "../src/submit/fit";
import { EMPTY, requestOf, wrongsOf, type Form } from "../src/submit/form";
import { agent, device, holder } from "./cluster";

const form = (part: Partial<Form>): Form => ({ ...EMPTY, command: "true", ...part });

describe("what is wrong", () => {
  test("nothing, with a command", () => expect(wrongsOf(form({}))).toEqual({}));

  test.each<[Partial<Form>, keyof Form]>([
    [{ command: " " }, "command"],
    [{ command: "x".repeat(140_000) }, "command"],
    [{ amount: "1.5" }, "amount"],
    [{ amount: "0" }, "amount"],
    [{ amount: "-1" }, "amount"],
    [{ slot: "cuda.shares", amount: "0.123" }, "amount"],
    [{ kernels: "0" }, "kernels"],
    [{ kernels: "two" }, "kernels"],
    [{ cpu: "many" }, "cpu"],
    [{ mem: "32 apples" }, "mem"],
    [{ estimate: "soon" }, "estimate"],
    [{ limit: "0" }, "limit"],
    [{ array: "1-" }, "array"],
    [{ environment: "A=1\nB" }, "environment"],
    [{ folder: "home" }, "folder"],
  ])("%o: %s", (part, field) => expect(Object.keys(wrongsOf(form(part)))).toEqual([field]));

  test("the amount of no accelerator is nobody's", () => expect(wrongsOf(form({ slot: "", amount: "" }))).toEqual({}));
});

test("the request has what was typed and nothing else", () => {
  expect(requestOf(form({}))).toEqual({
    command: { shell: "true" },
    slots: [{ slot: "cuda.device", amount: "1" }],
    cluster_size: 1,
    priority: "normal",
    max_retries: 0,
    preemptible: false,
    held: false,
  });
  const whole = requestOf(form({ slot: "", mem: "32g", limit: "1h30m", environment: "A=b=c\n\nD=", array: "0-3" }));
  expect(whole).toMatchObject({
    slots: [{ slot: "mem", amount: "32g" }],
    time_limit: 5_400,
    environment: [
      { name: "A", value: "b=c" },
      { name: "D", value: "" },
    ],
    array: "0-3",
  });
});

describe("where there is room", () => {
  const held = (id: string, used: number) =>
    device({ id, used: used.toFixed(2), free: (1 - used).toFixed(2), holders: used ? [holder()] : [] });
  const agents = [
    agent([held("a", 0.5), held("b", 0), held("c", 0)]),
    agent([held("d", 0.5), held("e", 0.4)], { id: "agent-2", node_id: "node-2" }),
  ];
  const fit = (part: Partial<Form>) => fitOf(form(part), agents);

  test("whole devices need idle ones", () => {
    expect(fit({ amount: "2" })).toMatchObject({ now: 1, places: [{ agent: "agent-1", kernels: 1 }] });
    expect(fit({ amount: "1", kernels: "3" })).toMatchObject({ now: 2, everFits: 3 });
  });
  test("shares go beside others", () => expect(fit({ slot: "cuda.shares", amount: "0.5", kernels: "7" })).toMatchObject({ now: 7 }));
  test("more shares than a device has are spread evenly", () => {
    expect(fit({ slot: "cuda.shares", amount: "1.2" }).now).toBe(1);
    expect(fit({ slot: "cuda.shares", amount: "2.4" }).now).toBe(0);
  });
  test("what no agent could ever run is known", () => expect(fit({ amount: "4" }).everFits).toBe(0));
  test("a draining agent takes nothing, but could again", () => {
    const draining = agents.map((one) => ({ ...one, draining: true }));
    expect(fitOf(form({}), draining)).toMatchObject({ now: 0, everFits: 1 });
  });
  test("too little memory on the device is no room", () => expect(fit({ gpuMemory: "100" })).toMatchObject({ everFits: 0 }));
});
