import type { Session } from "../session/loading";
import { commandOf } from "../session/Request";
import { EMPTY, type Form } from "./form";

/** What a session that demands a sandbox asks of its agents. */
const SANDBOX_LABEL = "aliquot.sandbox";

/** The form that asks for the same once more. Limits and secrets are not told of a session: they are to be said again. */
export function formOf(session: Session): Form {
  const slots = new Map(session.slots.map(({ slot, amount }) => [slot, amount]));
  const accelerators = [...slots.keys()].find((slot) => slot !== "cpu" && slot !== "mem") ?? "";
  return {
    ...EMPTY,
    command: commandOf(session.command),
    slot: accelerators,
    amount: slots.get(accelerators) ?? "",
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
    environment: session.environment.map(({ name, value }) => `${name}=${value}`).join("\n"),
    folder: session.working_directory ?? "",
    isPreemptible: session.preemptible,
    isSandboxed: session.labels.some(({ name }) => name === SANDBOX_LABEL),
  };
}

function seconds(value: number | null): string {
  return value === null ? "" : `${value}s`;
}
