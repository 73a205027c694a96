import { amountOf } from "../format/amounts";
import { DURATION_FORM, secondsOf } from "../format/times";
import type { CreateSessionInput } from "../generated/graphql";
import { secretsOf, secretsWrong } from "./secrets";

/** The form of a session, as it is typed. */
export interface Form {
  readonly command: string;
  /** The accelerator slot; empty is none. */
  readonly slot: string;
  readonly amount: string;
  readonly kernels: string;
  readonly cpu: string;
  readonly mem: string;
  readonly gpuMemory: string;
  readonly name: string;
  readonly priority: string;
  readonly estimate: string;
  readonly limit: string;
  readonly retries: string;
  readonly project: string;
  readonly pool: string;
  readonly array: string;
  readonly environment: string;
  readonly folder: string;
  readonly isPreemptible: boolean;
  readonly isHeld: boolean;
  readonly processes: string;
  readonly openFiles: string;
  readonly secrets: string;
  readonly isSandboxed: boolean;
}

export type Field = keyof Form;
export type Wrongs = Partial<Record<Field, string>>;

export const EMPTY: Form = {
  command: "",
  slot: "cuda.device",
  amount: "1",
  kernels: "1",
  cpu: "",
  mem: "",
  gpuMemory: "",
  name: "",
  priority: "normal",
  estimate: "",
  limit: "",
  retries: "0",
  project: "",
  pool: "",
  array: "",
  environment: "",
  folder: "",
  isPreemptible: false,
  isHeld: false,
  processes: "",
  openFiles: "",
  secrets: "",
  isSandboxed: false,
};

const COMMAND_BYTES_MAX = 128 * 1024;
/** The sandbox and the shell need some of them. */
const PROCESSES_MIN = 8;
const OPEN_FILES_MIN = 16;

/** Error messages of fields, as far as the server is not needed. */
export function wrongsOf(form: Form): Wrongs {
  const checks: readonly (readonly [Field, string | undefined])[] = [
    ["command", commandWrong(form.command)],
    ["amount", form.slot ? amountWrong(form.slot, form.amount) : undefined],
    ["kernels", wholeWrong(form.kernels, 1)],
    ["cpu", form.cpu && !(Number(form.cpu) > 0) ? "Enter a number of cores, like 4." : undefined],
    ["mem", form.mem && !(amountOf(form.mem) > 0) ? "Enter a size, like 32g or 512m." : undefined],
    ["gpuMemory", form.gpuMemory && !(Number(form.gpuMemory) > 0) ? "Enter a number of GB, like 40." : undefined],
    ["estimate", timeWrong(form.estimate)],
    ["limit", timeWrong(form.limit)],
    ["retries", wholeWrong(form.retries, 0)],
    [
      "array",
      form.array && !/^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(form.array) ? "Enter indices, like 0-99,105." : undefined,
    ],
    ["environment", environmentWrong(form.environment)],
    ["folder", form.folder && !form.folder.startsWith("/") ? "Enter an absolute path." : undefined],
    ["processes", form.processes ? wholeWrong(form.processes, PROCESSES_MIN) : undefined],
    ["openFiles", form.openFiles ? wholeWrong(form.openFiles, OPEN_FILES_MIN) : undefined],
    ["secrets", secretsWrong(form.secrets)],
  ];
  return Object.fromEntries(checks.filter(([, wrong]) => wrong)) as Wrongs;
}

/** The request of a valid form. */
export function requestOf(form: Form): CreateSessionInput {
  const slots = [
    form.slot ? { slot: form.slot, amount: form.amount.trim() } : null,
    form.cpu ? { slot: "cpu", amount: form.cpu.trim() } : null,
    form.mem ? { slot: "mem", amount: form.mem.trim() } : null,
  ].filter((slot) => slot !== null);
  return {
    command: { shell: form.command },
    slots,
    cluster_size: Number(form.kernels),
    priority: form.priority,
    max_retries: Number(form.retries),
    preemptible: form.isPreemptible,
    held: form.isHeld,
    ...(form.name && { name: form.name.trim() }),
    ...(form.gpuMemory && { gpu_memory_gb: form.gpuMemory.trim() }),
    ...(form.estimate && { estimated_duration: secondsOf(form.estimate) }),
    ...(form.limit && { time_limit: secondsOf(form.limit) }),
    ...(form.project && { project: form.project.trim() }),
    ...(form.pool && { pool: form.pool }),
    ...(form.array && { array: form.array.trim() }),
    ...(form.folder && { working_directory: form.folder.trim() }),
    ...(form.isSandboxed && { sandbox: "standard" as const }),
    ...(form.secrets.trim() && { secrets: secretsOf(form.secrets) }),
    ...((form.processes || form.openFiles) && { limits: limitsOf(form) }),
    ...(form.environment.trim() && { environment: variablesOf(form.environment) }),
  };
}

function limitsOf({ processes, openFiles }: Form) {
  return {
    ...(processes && { processes: Number(processes) }),
    ...(openFiles && { open_files: Number(openFiles) }),
  };
}

export function variablesOf(text: string): { name: string; value: string }[] {
  return linesOf(text).map((line) => {
    const at = line.indexOf("=");
    return { name: line.slice(0, at).trim(), value: line.slice(at + 1) };
  });
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

function commandWrong(command: string): string | undefined {
  if (!command.trim()) return "Enter a command.";
  return new TextEncoder().encode(command).length > COMMAND_BYTES_MAX ? "The maximum is 128 KiB." : undefined;
}

function amountWrong(slot: string, text: string): string | undefined {
  if (!/^\d+(\.\d+)?$/.test(text.trim()) || !(Number(text) > 0)) return "Enter a number above 0.";
  if (slot.endsWith(".device") && !Number.isInteger(Number(text))) {
    return "Enter a whole number of devices; choose shares for a part of one.";
  }
  return slot.endsWith(".shares") && !/^\d+(\.\d{1,2}0*)?$/.test(text.trim()) ? "Enter a multiple of 0.01." : undefined;
}

function wholeWrong(text: string, least: number): string | undefined {
  return /^\d+$/.test(text.trim()) && Number(text) >= least ? undefined : `Enter a whole number, ${least} or more.`;
}

function timeWrong(text: string): string | undefined {
  return text && !(secondsOf(text) > 0) ? DURATION_FORM : undefined;
}

function environmentWrong(text: string): string | undefined {
  const bad = linesOf(text).find((line) => !/^\s*[A-Za-z_][A-Za-z0-9_]*=/.test(line));
  return bad === undefined ? undefined : `Write NAME=value on each line; this is not: ${bad.slice(0, 40)}`;
}
