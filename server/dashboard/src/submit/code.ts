import { durationText } from "../format/times";
import type { CreateSessionInput } from "../generated/graphql";
import { quoted } from "../session/command";
import { OWN_CHECK } from "./form";

type Pairs = readonly { readonly name: string; readonly value: string }[];

const AFTER = { after_ok: "--after", after_any: "--after-any", after_fail: "--after-failed" } as const;

/** The request as a command of the shell; what the command has no option for is named in a comment. */
export function asCommand(request: CreateSessionInput): string {
  const words: string[] = [];
  const add = (option: string, value: string | number | null | undefined) => {
    if (value !== null && value !== undefined && value !== "") words.push(`${option} ${quoted(String(value))}`);
  };
  const pairs = (option: string, list: Pairs | null | undefined) =>
    (list ?? []).forEach(({ name, value }) => add(option, `${name}=${value}`));
  for (const { slot, amount } of request.slots) slot === "gpu" ? add("--gpus", amount) : add("-r", `${slot}=${amount}`);
  if (request.cluster_size !== 1) add("--cluster-size", request.cluster_size);
  add("--cluster-size-min", request.cluster_size_min);
  if (request.topology && request.topology !== "prefer") add("--topology", request.topology);
  add("--gpu-memory", request.gpu_memory_gb);
  for (const model of request.models ?? []) add("--model", model);
  add("--name", request.name);
  add("--run-id", request.run_id);
  pairs("--tag", request.tags);
  add("--project", request.project);
  add("--pool", request.pool);
  pairs("--label", request.labels);
  add("-C", request.working_directory);
  add("--workspace", request.workspace);
  add("--env", request.activates);
  add("--image", request.image);
  if (request.preflight) add("--preflight", checkIn(request.preflight));
  add("--preflight-limit", lasting(request.preflight?.time_limit));
  if (request.shares_access) words.push("--shared");
  pairs("-e", request.environment);
  for (const { name, port } of request.apps ?? []) add("--app", port ? `${name}=${port}` : name);
  for (const { name, as_env, as_file } of request.secrets ?? [])
    add(as_file ? "--secret-file" : "--secret", `${name}=${as_file ?? as_env ?? name}`);
  if (request.sandbox) words.push("--sandbox");
  add("--max-processes", request.limits?.processes);
  add("--max-open-files", request.limits?.open_files);
  if (request.priority !== "normal") add("--priority", request.priority);
  add("--time-limit", lasting(request.time_limit));
  add("--estimate", lasting(request.estimated_duration));
  add("--array", request.array);
  add("--max-parallel", request.max_parallel);
  add("--booking", request.booking);
  for (const { session_id, condition } of request.depends_on ?? []) add(AFTER[condition ?? "after_ok"], session_id);
  if (request.max_retries) add("--retries", request.max_retries);
  if (request.retries_own_failures) words.push("--retry-own-failures");
  if (request.preemptible) words.push("--preemptible");
  add("--checkpoint-signal", request.checkpoint_signal);
  add("--checkpoint-every", lasting(request.checkpoint_every));
  add("--grace", lasting(request.grace));
  if (request.held) words.push("--hold");
  const left = Object.entries({
    "preferred models": request.preferred_models,
    "preferred labels": request.preferred_labels,
    "fallback requests": request.fallbacks,
  }).flatMap(([name, value]) => (value?.length ? [name] : []));
  const note = left.length ? `# The command has no option for: ${left.join(", ")}.\n` : "";
  return `${note}${["aliquot session create", ...words, `-- ${wordsOf(request).map(quoted).join(" ")}`].join(" \\\n  ")}`;
}

/** The request as a session file for `aliquot run`. Its texts are JSON, which is YAML too. */
export function asFile(request: CreateSessionInput): string {
  const lines: string[] = [];
  const add = (key: string, value: unknown) => {
    if (value !== null && value !== undefined && value !== "" && value !== false)
      lines.push(`${key}: ${JSON.stringify(value)}`);
  };
  const table = (list: Pairs | null | undefined) =>
    list?.length ? Object.fromEntries(list.map(({ name, value }) => [name, value])) : null;
  const some = <T>(list: readonly T[] | null | undefined) => (list?.length ? list : null);
  const amounts = (slots: CreateSessionInput["slots"]) =>
    Object.fromEntries(slots.map(({ slot, amount }) => [slot, amount]));
  add("name", request.name);
  add("command", request.command.shell ?? request.command.argv);
  add("resources", amounts(request.slots));
  if (request.cluster_size !== 1) add("cluster-size", request.cluster_size);
  add("cluster-size-min", request.cluster_size_min);
  add("gpu-memory", request.gpu_memory_gb);
  if (request.topology !== "prefer") add("topology", request.topology);
  add("models", some(request.models));
  add("preferred-models", some(request.preferred_models));
  add("environment", table(request.environment));
  add("working-directory", request.working_directory);
  add("workspace", request.workspace);
  add("activate", request.activates);
  add("image", request.image);
  const check = request.preflight;
  const limit = lasting(check?.time_limit);
  add("preflight", check && (limit ? { command: checkIn(check), limit } : checkIn(check)));
  add("shared", request.shares_access);
  for (const [key, field] of [
    ["secrets", "as_env"],
    ["secret-files", "as_file"],
  ] as const) {
    const own = (request.secrets ?? []).filter((use) => use[field]);
    add(key, own.length ? Object.fromEntries(own.map((use) => [use.name, use[field]])) : null);
  }
  add("sandbox", Boolean(request.sandbox));
  add("max-processes", request.limits?.processes);
  add("max-open-files", request.limits?.open_files);
  add("tags", table(request.tags));
  add("run-id", request.run_id);
  add("project", request.project);
  add("pool", request.pool);
  add("labels", table(request.labels));
  add("preferred-labels", table(request.preferred_labels));
  if (request.priority !== "normal") add("priority", request.priority);
  add("time-limit", lasting(request.time_limit));
  add("estimate", lasting(request.estimated_duration));
  add("array", request.array);
  add("max-parallel", request.max_parallel);
  add("booking", request.booking);
  for (const [key, wanted] of DEPENDENCIES) {
    const ids = (request.depends_on ?? []).filter(({ condition }) => (condition ?? "after_ok") === wanted);
    add(key, ids.length ? ids.map(({ session_id }) => session_id) : null);
  }
  if (request.max_retries) add("retries", request.max_retries);
  add("retry-own-failures", request.retries_own_failures);
  add("preemptible", request.preemptible);
  add("checkpoint-signal", request.checkpoint_signal);
  add("checkpoint-every", lasting(request.checkpoint_every));
  add("grace", lasting(request.grace));
  const fallbacks = (request.fallbacks ?? []).map(({ slots, after_s, cluster_size, gpu_memory_gb }) => ({
    resources: amounts(slots),
    after: lasting(after_s),
    ...(cluster_size ? { "cluster-size": cluster_size } : {}),
    ...(gpu_memory_gb ? { "gpu-memory": gpu_memory_gb } : {}),
  }));
  add("fallbacks", some(fallbacks));
  if (request.apps?.length)
    add(
      "apps",
      request.apps.map(({ name, port }) => (port ? `${name}=${port}` : name)),
    );
  add("hold", request.held);
  return [...lines, ""].join("\n");
}

const DEPENDENCIES = [
  ["after", "after_ok"],
  ["after-any", "after_any"],
  ["after-failed", "after_fail"],
] as const;

/** The request as a Python program that submits it and waits for its end. */
export function asPython(request: CreateSessionInput): string {
  const { command: _, slots, environment, ...options } = request;
  const models: string[] = [];
  const given = Object.entries(options).flatMap(([name, value]) => {
    if (value === null || value === undefined || value === DEFAULTS[name]) return [];
    return [`        ${name}=${python(name, value, models)},`];
  });
  const variables = environment?.length
    ? [`        environment=${dictOf(environment.map(({ name, value }) => [name, value]))},`]
    : [];
  const imports = [...new Set(models)].sort();
  return [
    "from aliquot.client import BlockingClient, find_place",
    ...(imports.length ? [`from aliquot.client.generated.inputs import ${imports.join(", ")}`] : []),
    "",
    "with BlockingClient.at(find_place()) as client:",
    "    session = client.submit(",
    `        ${commandIn(request)},`,
    `        slots=${dictOf(slots.map(({ slot, amount }) => [slot, amount]))},`,
    ...variables,
    ...given,
    "    )",
    "    print(session.id)",
    "",
  ].join("\n");
}

const DEFAULTS: Readonly<Record<string, unknown>> = {
  cluster_size: 1,
  priority: "normal",
  max_retries: 0,
  preemptible: false,
  held: false,
};

/** The input types of fields that are objects, or lists of them. */
const TYPES: Readonly<Record<string, string>> = {
  tags: "NameValueInput",
  labels: "NameValueInput",
  preferred_labels: "NameValueInput",
  depends_on: "DependencyInput",
  limits: "SessionLimitsInput",
  secrets: "SecretUseInput",
  apps: "AppInput",
  preflight: "PreflightInput",
  command: "CommandInput",
  fallbacks: "FallbackInput",
  slots: "SlotAmountInput",
};

/** A value as a Python expression; the types it uses are added to `models`. */
function python(name: string, value: unknown, models: string[]): string {
  if (Array.isArray(value)) return `[${value.map((one) => python(name, one, models)).join(", ")}]`;
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (value === null || value === undefined) return "None";
  if (typeof value !== "object") return text(String(value));
  const type = TYPES[name] ?? "dict";
  models.push(type);
  const fields = Object.entries(value).flatMap(([field, own]) =>
    own === null || own === undefined ? [] : [`${field}=${python(field, own, models)}`],
  );
  return `${type}(${fields.join(", ")})`;
}

function dictOf(entries: readonly (readonly [string, string])[]): string {
  return `{${entries.map(([name, value]) => `${text(name)}: ${text(value)}`).join(", ")}}`;
}

/** A Python string: JSON's escapes are among Python's. */
function text(value: string): string {
  return JSON.stringify(value);
}

function wordsOf({ command }: CreateSessionInput): readonly string[] {
  return command.argv ?? ["sh", "-c", command.shell ?? ""];
}

function commandIn({ command }: CreateSessionInput): string {
  return command.argv ? `[${command.argv.map(text).join(", ")}]` : text(command.shell ?? "");
}

function checkIn({ command }: NonNullable<CreateSessionInput["preflight"]>): string {
  return command?.shell ?? OWN_CHECK;
}

function lasting(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? "" : durationText(seconds);
}
