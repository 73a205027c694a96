import { expect, test } from "vitest";
import type { Session } from "../src/session/loading";
import { formOf, leftOutOf } from "../src/submit/again";
import { requestOf, wrongsOf } from "../src/submit/form";

const none = { indices: "", count: 0 };
const tasks = { waiting: none, active: none, completed: none, failed: none, canceled: none, max_parallel: null };
/** What of a session the form and its note look at. */
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
  working_directory: "/data",
  preemptible: true,
  labels: [{ name: "aliquot.sandbox", value: "standard" }],
  preferred_labels: [],
  models: [],
  preferred_models: [],
  tags: [],
  run_id: null,
  depends_on: [],
  fallbacks: [],
  tasks: null,
  checkpoint_signal: null,
  grace: null,
  retries_own_failures: false,
  hidden: [],
};
const session = (part: Partial<Record<keyof Session, unknown>>) => ({ ...plain, ...part }) as unknown as Session;

test("what the form has fields for is asked for once more, and nothing is left out", () => {
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

test("an array is asked for whole, wherever its tasks are", () => {
  const halfway = { ...tasks, waiting: { indices: "5-9,12", count: 6 }, failed: { indices: "0-4", count: 5 } };
  const form = formOf(session({ tasks: halfway }));
  expect(wrongsOf(form)).toEqual({});
  expect(form.array.split(",").sort()).toEqual(["0-4", "12", "5-9"]);
});

test.each<[Partial<Record<keyof Session, unknown>>, string]>([
  [{ slots: [...plain.slots, { slot: "rocm.shares", amount: "0.5" }] }, "slots rocm.shares"],
  [{ models: ["*H100*", "*A100*"] }, "models *H100*, *A100*"],
  [{ preferred_models: ["*H200*"] }, "preferred models *H200*"],
  [{ labels: [...plain.labels, { name: "rack", value: "7" }] }, "labels rack=7"],
  [{ preferred_labels: [{ name: "disk", value: "nvme" }] }, "preferred labels disk=nvme"],
  [{ tags: [{ name: "sweep", value: "1" }] }, "tags sweep=1"],
  [{ run_id: "r-1" }, "run id r-1"],
  [{ depends_on: [{}, {}] }, "dependencies: 2"],
  [{ fallbacks: [{ after: 60 }] }, "fallback requests: 1"],
  [{ tasks: { ...tasks, max_parallel: 4 } }, "maximum parallel tasks: 4"],
  [{ checkpoint_signal: "SIGUSR1" }, "checkpoint signal SIGUSR1"],
  [{ grace: 0 }, "grace period in seconds: 0"],
  [{ retries_own_failures: true }, "retries of its own failures"],
  [{ hidden: ["environment"] }, "fields hidden from you: environment"],
])("%o is named as left out", (part, words) => expect(leftOutOf(session(part))).toEqual([words]));
