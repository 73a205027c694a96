import { amountInput, amountOf } from "../format/amounts";
import { positiveWrong, wholeWrong } from "../format/whole";
import { DURATION_FORM, secondsOf } from "../format/times";
import type { CreateSessionInput } from "../generated/graphql";
import { wordsAround } from "../session/command";
import { secretsOf, secretsWrong } from "./secrets";

/** The form of a session, as it is typed. */
export interface Form {
  readonly command: string;
  /** Copied from another session: the words that run the command, instead of `/bin/sh -c`; see `wordsAround`. */
  readonly around: readonly string[];
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
  /** Copied from another session, like `tagsLong`: variables whose values have several lines. */
  readonly environmentLong: readonly Pair[];
  readonly folder: string;
  /** Id of an uploaded working directory, of a session that runs again. */
  readonly workspace: string;
  /** Environment that is activated before the command: uv, or a path. */
  readonly activates: string;
  readonly image: string;
  /** Whether members of the project may open its terminals and web services. */
  readonly isShared: boolean;
  readonly isPreemptible: boolean;
  readonly isHeld: boolean;
  readonly processes: string;
  readonly openFiles: string;
  readonly secrets: string;
  readonly isSandboxed: boolean;
  /** NAME=VALUE on each line, as for labels. */
  readonly tags: string;
  readonly tagsLong: readonly Pair[];
  /** A command, or `default`; empty = no check. */
  readonly preflight: string;
  readonly preflightLimit: string;
  /** NAME or NAME=PORT, separated by spaces. */
  readonly apps: string;
  /** Patterns, separated by commas. */
  readonly models: string;
  readonly preferredModels: string;
  readonly labels: string;
  readonly preferredLabels: string;
  /** SLOT=AMOUNT on each line: slots without their own field. */
  readonly otherSlots: string;
  /** A session on each line, with a condition: `ses_... after_any`. */
  readonly dependencies: string;
  readonly maxParallel: string;
  /** Id of a booking; empty = none. */
  readonly booking: string;
  readonly runId: string;
  readonly retriesOwn: boolean;
  readonly checkpointSignal: string;
  readonly checkpointEvery: string;
  /** The fewest kernels that an elastic gang starts with; empty = it is not elastic. */
  readonly kernelsMin: string;
  readonly topology: "prefer" | "require";
  readonly grace: string;
  /** Copied from another session; the form shows them, and can only drop them. */
  readonly fallbacks: readonly Fallback[];
}

export type Fallback = NonNullable<CreateSessionInput["fallbacks"]>[number];

export interface Pair {
  readonly name: string;
  readonly value: string;
}

export type Field = keyof Form;
export type Wrongs = Partial<Record<Field, string>>;

/** What a group of fields gets. */
export interface FieldsProps {
  readonly form: Form;
  readonly wrongs: Wrongs;
  readonly change: (part: Partial<Form>) => void;
}

export const EMPTY: Form = {
  command: "",
  around: [],
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
  environmentLong: [],
  folder: "",
  workspace: "",
  activates: "",
  image: "",
  isShared: false,
  isPreemptible: false,
  isHeld: false,
  processes: "",
  openFiles: "",
  secrets: "",
  isSandboxed: false,
  tags: "",
  tagsLong: [],
  preflight: "",
  preflightLimit: "",
  apps: "",
  models: "",
  preferredModels: "",
  labels: "",
  preferredLabels: "",
  otherSlots: "",
  dependencies: "",
  maxParallel: "",
  booking: "",
  runId: "",
  retriesOwn: false,
  checkpointSignal: "",
  checkpointEvery: "",
  kernelsMin: "",
  topology: "prefer",
  grace: "",
  fallbacks: [],
};

/** The check that agents have of their own. */
export const OWN_CHECK = "default";
const COMMAND_BYTES_MAX = 128 * 1024;
/** The sandbox and the shell need some of them. */
const PROCESSES_MIN = 8;
const OPEN_FILES_MIN = 16;

/** Less is a size whose unit was forgotten. */
const MEMORY_BYTES_MIN = 2 ** 20;

function memoryWrong(text: string): string | undefined {
  const bytes = text ? amountOf(text) : MEMORY_BYTES_MIN;
  if (!(bytes > 0)) return "Enter a size, like 32g or 512m.";
  return bytes < MEMORY_BYTES_MIN ? `That is ${text} bytes; write a unit, like ${text}g.` : undefined;
}

const NO_CHECK = "Enter the command of the check, too.";

/** Error messages of fields, as far as the server is not needed. */
export function wrongsOf(form: Form): Wrongs {
  const checks: readonly (readonly [Field, string | undefined])[] = [
    ["command", commandWrong(form.command)],
    ["amount", form.slot ? amountWrong(form.slot, form.amount) : undefined],
    ["kernels", wholeWrong(form.kernels, 1)],
    ["cpu", form.cpu && !(Number(form.cpu) > 0) ? "Enter a number of cores, like 4." : undefined],
    ["mem", memoryWrong(form.mem)],
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
    ["tags", pairsWrong(form.tags)],
    ["apps", appsWrong(form.apps)],
    ["preflightLimit", form.preflightLimit && !form.preflight.trim() ? NO_CHECK : timeWrong(form.preflightLimit)],
    ["labels", pairsWrong(form.labels)],
    ["preferredLabels", pairsWrong(form.preferredLabels)],
    ["otherSlots", pairsWrong(form.otherSlots)],
    ["dependencies", dependenciesWrong(form.dependencies)],
    ["maxParallel", form.maxParallel ? wholeWrong(form.maxParallel, 1) : undefined],
    ["checkpointEvery", timeWrong(form.checkpointEvery)],
    ["kernelsMin", form.kernelsMin ? kernelsMinWrong(form) : undefined],
    [
      "topology",
      form.kernelsMin && form.topology === "require" ? "A gang that must be on one switch starts whole." : undefined,
    ],
    ["grace", form.grace && !(secondsOf(form.grace) >= 0) ? DURATION_FORM : undefined],
  ];
  return Object.fromEntries(checks.filter(([, wrong]) => wrong)) as Wrongs;
}

/** The request of a valid form. */
export function requestOf(form: Form): CreateSessionInput {
  const slots = [
    form.slot ? { slot: form.slot, amount: form.amount.trim() } : null,
    form.cpu ? { slot: "cpu", amount: form.cpu.trim() } : null,
    form.mem ? { slot: "mem", amount: amountInput(form.mem) } : null,
    ...variablesOf(form.otherSlots).map(({ name, value }) => ({ slot: name, amount: value.trim() })),
  ].filter((slot) => slot !== null);
  return {
    command: form.around.length ? { argv: wordsAround(form.command, form.around) } : { shell: form.command },
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
    ...(form.workspace && { workspace: form.workspace.trim() }),
    ...(form.activates && { activates: form.activates.trim() }),
    ...(form.image && { image: form.image.trim() }),
    ...(form.isShared && { shares_access: true }),
    ...(form.isSandboxed && { sandbox: "standard" as const }),
    ...(form.secrets.trim() && { secrets: secretsOf(form.secrets) }),
    ...((form.processes || form.openFiles) && { limits: limitsOf(form) }),
    ...some("environment", [...variablesOf(form.environment), ...form.environmentLong]),
    ...some("tags", [...variablesOf(form.tags), ...form.tagsLong]),
    ...(form.preflight.trim() && { preflight: preflightOf(form) }),
    ...(form.apps.trim() && { apps: appsOf(form.apps) }),
    ...(form.models.trim() && { models: wordsOf(form.models) }),
    ...(form.preferredModels.trim() && { preferred_models: wordsOf(form.preferredModels) }),
    ...(form.labels.trim() && { labels: variablesOf(form.labels) }),
    ...(form.preferredLabels.trim() && { preferred_labels: variablesOf(form.preferredLabels) }),
    ...(form.dependencies.trim() && { depends_on: dependenciesOf(form.dependencies) }),
    ...(form.maxParallel && { max_parallel: Number(form.maxParallel) }),
    ...(form.booking && { booking: form.booking }),
    ...(form.runId.trim() && { run_id: form.runId.trim() }),
    ...(form.retriesOwn && { retries_own_failures: true }),
    ...(form.checkpointSignal.trim() && { checkpoint_signal: form.checkpointSignal.trim() }),
    ...(form.checkpointEvery && { checkpoint_every: secondsOf(form.checkpointEvery) }),
    ...(form.kernelsMin && { cluster_size_min: Number(form.kernelsMin) }),
    ...(form.topology === "require" && { topology: form.topology }),
    ...(form.grace && { grace: secondsOf(form.grace) }),
    ...(form.fallbacks.length && { fallbacks: form.fallbacks }),
  };
}

function some(name: "environment" | "tags", pairs: readonly Pair[]) {
  return pairs.length ? { [name]: pairs } : {};
}

function preflightOf({ preflight, preflightLimit }: Form) {
  const shell = preflight.trim();
  return {
    ...(shell !== OWN_CHECK && { command: { shell } }),
    ...(preflightLimit && { time_limit: secondsOf(preflightLimit) }),
  };
}

function limitsOf({ processes, openFiles }: Form) {
  return {
    ...(processes && { processes: Number(processes) }),
    ...(openFiles && { open_files: Number(openFiles) }),
  };
}

function appsOf(text: string): { name: string; port: number }[] {
  return text
    .trim()
    .split(/\s+/)
    .map((word) => {
      const [name = "", port = "0"] = word.split("=");
      return { name, port: Number(port) };
    });
}

function appsWrong(text: string): string | undefined {
  const bad = text.split(/\s+/).find((word) => word && !/^[a-z][a-z0-9]{0,11}(=\d{1,5})?$/.test(word));
  return bad === undefined ? undefined : `Write NAME or NAME=PORT, like lab=8888; this is not: ${bad.slice(0, 40)}`;
}

export function variablesOf(text: string): { name: string; value: string }[] {
  return linesOf(text).map((line) => {
    const at = line.indexOf("=");
    return { name: line.slice(0, at).trim(), value: line.slice(at + 1) };
  });
}

type Dependency = NonNullable<CreateSessionInput["depends_on"]>[number];
const CONDITIONS = ["after_ok", "after_any", "after_fail"] as const;

function dependenciesOf(text: string): Dependency[] {
  return linesOf(text).map((line) => {
    const [session_id = "", condition] = line.trim().split(/\s+/);
    return { session_id, condition: CONDITIONS.find((one) => one === condition) ?? "after_ok" };
  });
}

function dependenciesWrong(text: string): string | undefined {
  const bad = linesOf(text).find((line) => {
    const [id = "", condition = "after_ok", ...rest] = line.trim().split(/\s+/);
    return !/^ses_[0-9a-f-]+(_\d+)?$/.test(id) || !CONDITIONS.some((one) => one === condition) || rest.length > 0;
  });
  return bad === undefined
    ? undefined
    : `Write a session's id on each line, with after_any or after_fail if it may fail; this is not: ${bad.slice(0, 40)}`;
}

/** Text of patterns, separated by commas. */
function wordsOf(text: string): string[] {
  return text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
}

function pairsWrong(text: string): string | undefined {
  const bad = linesOf(text).find((line) => !/^\s*[^=\s][^=]*=/.test(line));
  return bad === undefined ? undefined : `Write NAME=VALUE on each line; this is not: ${bad.trim().slice(0, 40)}`;
}

/**
 * The slot for an amount that is typed: shares for a part of a device, else whole devices.
 *
 * @param slot the slot until now, which gives the kind of device; empty stays empty.
 */
export function slotFor(slot: string, amount: string): string {
  const kind = slot.split(".")[0];
  return kind ? `${kind}.${amount.includes(".") && !Number.isInteger(Number(amount)) ? "shares" : "device"}` : "";
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

function commandWrong(command: string): string | undefined {
  if (!command.trim()) return "Enter a command.";
  return new TextEncoder().encode(command).length > COMMAND_BYTES_MAX ? "The maximum is 128 KiB." : undefined;
}

function amountWrong(slot: string, text: string): string | undefined {
  const wrong = positiveWrong(text);
  if (wrong) return wrong;
  if (slot.endsWith(".device") && !Number.isInteger(Number(text))) {
    return "Enter a whole number of devices; choose shares for a part of one.";
  }
  return slot.endsWith(".shares") && !/^\d+(\.\d{1,2}0*)?$/.test(text.trim()) ? "Enter a multiple of 0.01." : undefined;
}

function kernelsMinWrong({ kernels, kernelsMin }: Form): string | undefined {
  const wrong = wholeWrong(kernelsMin, 1);
  if (wrong || wholeWrong(kernels, 1)) return wrong;
  return Number(kernelsMin) < Number(kernels) ? undefined : `Enter fewer than its ${kernels} kernels, or nothing.`;
}

function timeWrong(text: string): string | undefined {
  return text && !(secondsOf(text) > 0) ? DURATION_FORM : undefined;
}

/** How a duration without a unit is read; undefined for others. */
export function secondsHint(text: string): string | undefined {
  return /^\s*\d+\s*$/.test(text) ? `${Number(text)} seconds; for minutes write ${Number(text)}m.` : undefined;
}

function environmentWrong(text: string): string | undefined {
  const bad = linesOf(text).find((line) => !/^\s*[A-Za-z_][A-Za-z0-9_]*=/.test(line));
  return bad === undefined ? undefined : `Write NAME=value on each line; this is not: ${bad.slice(0, 40)}`;
}
