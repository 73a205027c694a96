import { describe, expect, test } from "vitest";
import { EMPTY, requestOf, secondsHint, slotFor, wrongsOf, type Form } from "../src/submit/form";
import { asCommand, asFile, asPython } from "../src/submit/code";
import { addressOf, changedIn, dropTemplate, filled, formIn, saveTemplate, templates } from "../src/submit/templates";
import { placesOf } from "../src/submit/places";

const form = (part: Partial<Form>): Form => ({ ...EMPTY, command: "true", ...part });

describe("validation", () => {
  test("a command is enough", () => expect(wrongsOf(form({}))).toEqual({}));

  test.each<[Partial<Form>, keyof Form]>([
    [{ command: " " }, "command"],
    [{ command: "x".repeat(140_000) }, "command"],
    [{ amount: "1.5" }, "amount"],
    [{ amount: "0" }, "amount"],
    [{ amount: "-1" }, "amount"],
    [{ slot: "cuda.shares", amount: "0.123" }, "amount"],
    [{ kernels: "0" }, "kernels"],
    [{ kernels: "two" }, "kernels"],
    [{ kernels: "99999999999" }, "kernels"],
    [{ cpu: "many" }, "cpu"],
    [{ mem: "32 apples" }, "mem"],
    [{ mem: "32" }, "mem"],
    [{ estimate: "soon" }, "estimate"],
    [{ limit: "0" }, "limit"],
    [{ array: "1-" }, "array"],
    [{ environment: "A=1\nB" }, "environment"],
    [{ folder: "home" }, "folder"],
    [{ processes: "0" }, "processes"],
    [{ openFiles: "all" }, "openFiles"],
    [{ secrets: "A=1x" }, "secrets"],
    [{ secrets: "hf.token" }, "secrets"],
    [{ tags: "lr" }, "tags"],
    [{ labels: "=x" }, "labels"],
    [{ otherSlots: "rocm" }, "otherSlots"],
    [{ dependencies: "train" }, "dependencies"],
    [{ dependencies: "ses_1 later" }, "dependencies"],
    [{ maxParallel: "0" }, "maxParallel"],
    [{ grace: "long" }, "grace"],
  ])("%o: %s", (part, field) => expect(Object.keys(wrongsOf(form(part)))).toEqual([field]));

  test("a decimal comma is named", () =>
    expect(wrongsOf(form({ amount: "1,5" })).amount).toBe("Write a point, not a comma: 1.5."));

  test("no amount is needed without a slot", () => expect(wrongsOf(form({ slot: "", amount: "" }))).toEqual({}));
});

test("the request has only what was typed", () => {
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

test.each(["32 g", " 32 GiB ", "32g"])("memory of %s is a size", (mem) => {
  expect(wrongsOf(form({ mem }))).toEqual({});
  expect(requestOf(form({ slot: "", mem })).slots[0]?.amount).toMatch(/^32g(ib)?$/i);
});

test("planned devices by agent, with their names", () => {
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

test("sandbox, limits and secrets in the request", () => {
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

test("a fraction of a GPU requests shares, whole ones devices", () => {
  expect(["0.25", "1", "1.0", "1.5"].map((amount) => slotFor("cuda.device", amount))).toEqual([
    "cuda.shares",
    "cuda.device",
    "cuda.device",
    "cuda.shares",
  ]);
  expect([slotFor("rocm.shares", "2"), slotFor("", "2")]).toEqual(["rocm.device", ""]);
});

test("the request as a command", () => {
  expect(asCommand(requestOf(form({ command: "echo 'a b'" })))).toBe(
    "aliquot session create \\\n  -r cuda.device=1 \\\n  -- sh -c 'echo '\\''a b'\\'''",
  );
  const request = requestOf(
    form({ limit: "90m", tags: "a=b c", dependencies: "ses_1 after_any", isHeld: true, preferredModels: "*H100*" }),
  );
  const text = asCommand(request);
  expect(text.startsWith("# The command has no option for: preferred models.\n")).toBe(true);
  for (const part of ["--time-limit 1h30m", "--tag 'a=b c'", "--after-any ses_1", "--hold"])
    expect(text).toContain(`  ${part} `);
});

test("an elastic gang with checkpoints, as a command", () => {
  const request = form({ kernels: "4", kernelsMin: "2", checkpointEvery: "10m" });
  expect(wrongsOf(request)).toEqual({});
  const text = asCommand(requestOf(request));
  for (const part of ["--cluster-size-min 2", "--checkpoint-every 10m"]) expect(text).toContain(`  ${part} `);
  expect(asCommand(requestOf(form({ kernels: "4", topology: "require" })))).toContain("  --topology require ");
  expect(Object.keys(wrongsOf({ ...request, topology: "require" }))).toEqual(["topology"]);
  expect(Object.keys(wrongsOf({ ...request, kernelsMin: "4" }))).toEqual(["kernelsMin"]);
});

test("the request as Python", () => {
  const text = asPython(requestOf(form({ command: 'echo "a"', tags: "a=b", environment: "X=1", kernels: "2" })));
  expect(text).toBe(`from aliquot.client import BlockingClient, find_place
from aliquot.client.generated.inputs import NameValueInput

with BlockingClient.at(find_place()) as client:
    session = client.submit(
        "echo \\"a\\"",
        slots={"cuda.device": "1"},
        environment={"X": "1"},
        cluster_size=2,
        tags=[NameValueInput(name="a", value="b")],
    )
    print(session.id)
`);
});

test("templates and addresses hold the fields that differ from an empty form", () => {
  const some = form({ name: "train", isHeld: true });
  expect(changedIn(some)).toEqual({ command: "true", name: "train", isHeld: true });
  const address = new URL(addressOf(some), "http://x");
  expect(formIn(address.searchParams.get("form") ?? "")).toEqual(some);
  expect([formIn(""), formIn("[]"), formIn("nonsense")]).toEqual([null, null, null]);
  expect(filled({ name: 5, evil: "x", cpu: "4", fallbacks: "no" })).toEqual({ ...EMPTY, cpu: "4" });
  expect(filled({ fallbacks: [1], around: [2], tags: "a=b" })).toEqual({ ...EMPTY, tags: "a=b" });
  saveTemplate(" mine ", some);
  saveTemplate("mine", form({ cpu: "2" }));
  expect(templates.get()).toEqual([{ name: "mine", fields: { command: "true", cpu: "2" } }]);
  dropTemplate("mine");
  expect(templates.get()).toEqual([]);
});

test("a request as a file for aliquot run", () => {
  const text = asFile(
    requestOf(form({ command: 'echo "a"', tags: "a=b", kernels: "2", limit: "2h", secrets: "KEY=X" })),
  );
  const gang = form({ checkpointSignal: "SIGUSR1", checkpointEvery: "10m", kernels: "2", topology: "require" });
  expect(asFile(requestOf(gang))).toContain('checkpoint-every: "10m"\n');
  expect(asFile(requestOf(gang))).toContain('topology: "require"\n');
  expect(text).not.toContain("topology");
  expect(text).toContain('command: "echo \\"a\\""\n');
  expect(text).toContain('tags: {"a":"b"}\n');
  expect(text).toContain("cluster-size: 2\n");
  expect(text).toContain('time-limit: "2h"\n');
});

test("a duration without a unit is in seconds", () => {
  expect(secondsHint("30")).toBe("30 seconds; for minutes write 30m.");
  expect(secondsHint("30m")).toBeUndefined();
  expect(secondsHint("")).toBeUndefined();
});
