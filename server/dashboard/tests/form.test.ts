import { describe, expect, test } from "vitest";
import { EMPTY, requestOf, wrongsOf, type Form } from "../src/submit/form";
import { placesOf } from "../src/submit/places";

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
    [{ processes: "0" }, "processes"],
    [{ openFiles: "all" }, "openFiles"],
    [{ secrets: "A=1x" }, "secrets"],
    [{ secrets: "hf.token" }, "secrets"],
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

test("where it would go, by agent, with the names of the devices", () => {
  const given = (device_id: string, amount: string) => ({ slot: "cuda.shares", devices: [{ device_id, amount }] });
  const kernels = [
    {
      rank: 0,
      agent_id: "a",
      resource_spec: [given("g1", "1.00"), { slot: "cpu", devices: [{ device_id: "cpu0", amount: "1" }] }],
    },
    { rank: 1, agent_id: "a", resource_spec: [given("g2", "0.50")] },
    { rank: 2, agent_id: "b", resource_spec: [] },
  ];
  expect(placesOf(kernels, new Map([["g1", "cuda0"]]))).toEqual(["a: cuda0, g2 (0.50)", "b"]);
});

test("what it may use and see, as the server is asked", () => {
  const secrets = "HF_TOKEN\nwandb.key=WANDB_API_KEY\n\ncert=file:client.pem";
  expect(wrongsOf(form({ secrets, processes: "64" }))).toEqual({});
  expect(requestOf(form({ secrets, processes: "64", isSandboxed: true }))).toMatchObject({
    sandbox: "standard",
    limits: { processes: 64 },
    secrets: [
      { name: "HF_TOKEN", as_env: "HF_TOKEN" },
      { name: "wandb.key", as_env: "WANDB_API_KEY" },
      { name: "cert", as_file: "client.pem" },
    ],
  });
  expect(requestOf(form({}))).not.toHaveProperty("limits");
  expect(Object.keys(wrongsOf(form({ processes: "7", openFiles: "15", secrets: ".hidden=A" })))).toEqual([
    "processes",
    "openFiles",
    "secrets",
  ]);
});
