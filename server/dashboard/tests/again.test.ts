import { expect, test } from "vitest";
import type { Session } from "../src/session/loading";
import { formOf, leftOutOf } from "../src/submit/again";
import { asCommand, asFile, asPython } from "../src/submit/code";
import { requestOf, wrongsOf } from "../src/submit/form";

const none = { indices: "", count: 0 };
const tasks = { waiting: none, active: none, completed: none, failed: none, canceled: none, max_parallel: null };
/** The session fields that the form and its note use. */
const plain = {
  command: ["/bin/sh", "-c", "make all"],
  slots: [
    { slot: "cpu", amount: "4" },
    { slot: "cuda.device", amount: "2" },
    { slot: "mem", amount: "32g" },
  ],
  cluster_size: 3,
  gpu_memory_gb: "40",
  name: "train",
  priority: "high",
  estimated_duration: 600,
  time_limit: null,
  max_retries: 1,
  project: "lab",
  pool: "night",
  environment: [{ name: "A", value: "b=c" }],
  preflight: null,
  booking: null,
  working_directory: "/data",
  preemptible: true,
  labels: [{ name: "aliquot.sandbox", value: "standard" }],
  preferred_labels: [],
  models: [],
  preferred_models: [],
  tags: [],
  services: [],
  run_id: null,
  depends_on: [],
  fallbacks: [],
  tasks: null,
  checkpoint_signal: null,
  checkpoint_every: null,
  cluster_size_min: null,
  topology: "prefer",
  grace: null,
  retries_own_failures: false,
  hidden: [],
};
const session = (part: Partial<Record<keyof Session, unknown>>) => ({ ...plain, ...part }) as unknown as Session;

test("everything that has a form field is requested again, nothing is left out", () => {
  const form = formOf(session({}));
  expect(wrongsOf(form)).toEqual({});
  expect(requestOf(form)).toEqual({
    command: { shell: "make all" },
    slots: [
      { slot: "cuda.device", amount: "2" },
      { slot: "cpu", amount: "4" },
      { slot: "mem", amount: "32g" },
    ],
    cluster_size: 3,
    gpu_memory_gb: "40",
    name: "train",
    priority: "high",
    estimated_duration: 600,
    max_retries: 1,
    project: "lab",
    pool: "night",
    environment: [{ name: "A", value: "b=c" }],
    working_directory: "/data",
    preemptible: true,
    sandbox: "standard",
    held: false,
  });
  expect(leftOutOf(session({}))).toEqual([]);
});

test("a script is rerun by its interpreter, with its arguments and Slurm's variables", () => {
  const script = "#!/bin/bash\narr=($1 $2)";
  const plainly = (command: readonly string[]) => requestOf(formOf(session({ command }))).command;
  const bash = ["/bin/bash", "-c", script, "job.sh", "7", ""];
  const slurm = ["/bin/sh", "-c", 'exec "$@"', "slurm-variables"];
  expect(formOf(session({ command: bash })).command).toBe(script);
  expect(plainly(bash)).toEqual({ argv: bash });
  expect(plainly([...slurm, ...bash])).toEqual({ argv: [...slurm, ...bash] });
  expect(plainly([...slurm, "/bin/sh", "-c", script])).toEqual({ argv: [...slurm, "/bin/sh", "-c", script] });
  expect(plainly([...slurm, "train", "a b"])).toEqual({ argv: [...slurm, "/bin/sh", "-c", "train 'a b'"] });
  expect(plainly(["/usr/bin/python3", "-c", "#!/usr/bin/env python3\nprint(1)", "x.py"])).toEqual({
    argv: ["/usr/bin/python3", "-c", "#!/usr/bin/env python3\nprint(1)", "x.py"],
  });
  const edited = { ...formOf(session({ command: bash })), command: "#!/bin/bash\ntrue" };
  expect(requestOf(edited).command).toEqual({ argv: ["/bin/bash", "-c", "#!/bin/bash\ntrue", "job.sh", "7", ""] });
  expect(asCommand(requestOf(edited))).toContain("-- /bin/bash -c '#!/bin/bash\ntrue' job.sh 7 ''");
  expect(asPython(requestOf(edited))).toContain('["/bin/bash", "-c", "#!/bin/bash\\ntrue", "job.sh", "7", ""],');
  expect(asFile(requestOf(edited))).toContain('command: ["/bin/bash","-c",');
});

test("multi-line values are copied unchanged", () => {
  const [config, note] = [
    { name: "CONFIG", value: "lr=1\nseed=2" },
    { name: "note", value: "a\nb" },
  ];
  const form = formOf(session({ environment: [...plain.environment, config], tags: [note] }));
  expect(wrongsOf(form)).toEqual({});
  expect(requestOf(form)).toMatchObject({ environment: [{ name: "A", value: "b=c" }, config], tags: [note] });
});

test("the preflight check is copied", () => {
  const check = { time_limit: 60, failures: 0, agent_id: null, message: null };
  const formWith = (part: object) => formOf(session({ preflight: { ...check, ...part } }));
  expect(requestOf(formWith({ command: [] })).preflight).toEqual({});
  const own = requestOf(formWith({ command: ["/bin/sh", "-c", "nccl-test -q"], time_limit: 90 }));
  expect(own.preflight).toEqual({ command: { shell: "nccl-test -q" }, time_limit: 90 });
  expect(asCommand(own)).toContain("--preflight 'nccl-test -q' \\\n  --preflight-limit 1m30s");
  expect(asFile(own)).toContain('preflight: {"command":"nccl-test -q","limit":"1m30s"}\n');
  expect(asPython(own)).toContain(
    'preflight=PreflightInput(command=CommandInput(shell="nccl-test -q"), time_limit=90),',
  );
  expect(asCommand(requestOf(formWith({ command: [] })))).toContain("--preflight default");
  expect(asFile(requestOf(formWith({ command: [] })))).toContain('preflight: "default"\n');
  expect(Object.keys(wrongsOf({ ...formWith({ command: [] }), preflight: "", preflightLimit: "2m" }))).toEqual([
    "preflightLimit",
  ]);
});

test("an array is requested with all tasks, in any state", () => {
  const halfway = { ...tasks, waiting: { indices: "5-9,12", count: 6 }, failed: { indices: "0-4", count: 5 } };
  const form = formOf(session({ tasks: halfway }));
  expect(wrongsOf(form)).toEqual({});
  expect(form.array.split(",").sort()).toEqual(["0-4", "12", "5-9"]);
});

test("rarely used fields are copied too", () => {
  const rare = {
    slots: [...plain.slots, { slot: "rocm.shares", amount: "0.5" }],
    models: ["*H100*", "*A100*"],
    preferred_models: ["*H200*"],
    labels: [...plain.labels, { name: "rack", value: "7" }],
    preferred_labels: [{ name: "disk", value: "nvme" }],
    tags: [{ name: "sweep", value: "1" }],
    services: [
      { name: "lab", asked_port: 0 },
      { name: "board", asked_port: 6006 },
    ],
    run_id: "r-1",
    depends_on: [{ session_id: "ses_0a", condition: "after_any", state: null }],
    fallbacks: [{ slots: [{ slot: "cuda.device", amount: "1" }], cluster_size: 1, gpu_memory_gb: null, after: 60 }],
    tasks: { ...tasks, waiting: { indices: "0-9", count: 10 }, max_parallel: 4 },
    checkpoint_signal: "SIGUSR1",
    checkpoint_every: 600,
    cluster_size_min: 2,
    grace: 0,
    retries_own_failures: true,
    time_limit: 5400,
  };
  const form = formOf(session(rare));
  expect(wrongsOf(form)).toEqual({});
  expect(form.limit).toBe("1h30m");
  expect(requestOf(form)).toMatchObject({
    slots: [
      { slot: "cuda.device", amount: "2" },
      { slot: "cpu", amount: "4" },
      { slot: "mem", amount: "32g" },
      { slot: "rocm.shares", amount: "0.5" },
    ],
    models: ["*H100*", "*A100*"],
    preferred_models: ["*H200*"],
    labels: [{ name: "rack", value: "7" }],
    preferred_labels: [{ name: "disk", value: "nvme" }],
    tags: [{ name: "sweep", value: "1" }],
    apps: [
      { name: "lab", port: 0 },
      { name: "board", port: 6006 },
    ],
    run_id: "r-1",
    depends_on: [{ session_id: "ses_0a", condition: "after_any" }],
    fallbacks: [{ slots: [{ slot: "cuda.device", amount: "1" }], cluster_size: 1, gpu_memory_gb: null, after_s: 60 }],
    array: "0-9",
    max_parallel: 4,
    checkpoint_signal: "SIGUSR1",
    checkpoint_every: 600,
    cluster_size_min: 2,
    grace: 0,
    retries_own_failures: true,
  });
  expect(requestOf(formOf(session({ topology: "require" })))).toMatchObject({ topology: "require" });
  expect(leftOutOf(session(rare))).toEqual([]);
});

test("hidden request fields are named, hidden results are not", () => {
  expect(leftOutOf(session({ hidden: ["environment", "exit_code", "working_directory"] }))).toEqual([
    "environment",
    "working directory",
  ]);
});

test("a booking is requested by its id", () => {
  const request = requestOf({ ...formOf(session({})), booking: "bkg_1" });
  expect(request.booking).toBe("bkg_1");
  expect(asCommand(request)).toContain("--booking bkg_1");
  expect(asFile(request)).toContain('booking: "bkg_1"\n');
});

test("an open booking is requested again, one that is over is not", () => {
  const booked = session({ booking: "bkg_1" });
  expect(requestOf(formOf(booked, new Set(["bkg_1", "bkg_2"]))).booking).toBe("bkg_1");
  expect(requestOf(formOf(booked, new Set(["bkg_2"]))).booking).toBeUndefined();
});
