import type { Session } from "../session/loading";
import { commandOf } from "../session/Request";
import { EMPTY, type Form } from "./form";

/** The label of agents that sessions with a sandbox require. */
const SANDBOX_LABEL = "aliquot.sandbox";

/** A form with the request of a session, as far as it has fields; `leftOutOf` lists the rest. */
export function formOf(session: Session): Form {
  const slots = new Map(session.slots.map(({ slot, amount }) => [slot, amount]));
  const accelerator = acceleratorsOf(session)[0] ?? "";
  return {
    ...EMPTY,
    command: commandOf(session.command),
    slot: accelerator,
    amount: slots.get(accelerator) ?? "",
    kernels: String(session.cluster_size),
    cpu: slots.get("cpu") ?? "",
    mem: slots.get("mem") ?? "",
    gpuMemory: session.gpu_memory_gb ?? "",
    name: session.name ?? "",
    priority: session.priority,
    estimate: seconds(session.estimated_duration),
    limit: seconds(session.time_limit),
    retries: String(session.max_retries),
    project: session.project,
    pool: session.pool,
    array: indicesOf(session),
    environment: session.environment.map(({ name, value }) => `${name}=${value}`).join("\n"),
    folder: session.working_directory ?? "",
    isPreemptible: session.preemptible,
    isSandboxed: session.labels.some(({ name }) => name === SANDBOX_LABEL),
  };
}

/** The parts of a session's request that the form has no fields for, as text. */
export function leftOutOf(session: Session): string[] {
  const labels = session.labels.filter(({ name }) => name !== SANDBOX_LABEL);
  const parts: readonly (readonly [string, readonly string[]])[] = [
    ["slots", acceleratorsOf(session).slice(1)],
    ["models", session.models],
    ["preferred models", session.preferred_models],
    ["labels", labels.map(({ name, value }) => `${name}=${value}`)],
    ["preferred labels", session.preferred_labels.map(({ name, value }) => `${name}=${value}`)],
    ["tags", session.tags.map(({ name, value }) => `${name}=${value}`)],
    ["run id", known(session.run_id)],
    ["dependencies:", counted(session.depends_on)],
    ["fallback requests:", counted(session.fallbacks)],
    ["maximum parallel tasks:", known(session.tasks?.max_parallel)],
    ["checkpoint signal", known(session.checkpoint_signal)],
    ["grace period in seconds:", known(session.grace)],
    ["fields hidden from you:", session.hidden],
  ];
  const named = parts.flatMap(([what, values]) => (values.length ? [`${what} ${values.join(", ")}`] : []));
  return session.retries_own_failures ? [...named, "retries of its own failures"] : named;
}

function acceleratorsOf({ slots }: Session): string[] {
  return slots.map(({ slot }) => slot).filter((slot) => slot !== "cpu" && slot !== "mem");
}

/** The indices of all tasks of an array, in any state; empty for a single task. */
function indicesOf({ tasks }: Session): string {
  if (!tasks) return "";
  const { waiting, active, completed, failed, canceled } = tasks;
  return [waiting, active, completed, failed, canceled]
    .map(({ indices }) => indices)
    .filter((indices) => indices !== "")
    .join(",");
}

function known(value: string | number | null | undefined): string[] {
  return value === null || value === undefined ? [] : [String(value)];
}

function seconds(value: number | null): string {
  return value === null ? "" : `${value}s`;
}

function counted(list: readonly unknown[]): string[] {
  return list.length ? [String(list.length)] : [];
}
