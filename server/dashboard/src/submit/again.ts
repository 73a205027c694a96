import type { Session } from "../session/loading";
import { commandOf } from "../session/Request";
import { EMPTY, type Form } from "./form";

/** The form that asks for the same once more. */
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
  };
}

function seconds(value: number | null): string {
  return value === null ? "" : `${value}s`;
}
