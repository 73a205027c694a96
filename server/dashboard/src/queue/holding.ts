import type { Row } from "./loading";

type Held = Pick<Row, "allocated_gpus" | "scheduled_at" | "ended_at">;

const HOUR_MS = 3_600_000;

/** GPU-hours of the newest attempt until its end or now; shares count as fractions. Null before devices are granted. */
export function gpuHours({ allocated_gpus, scheduled_at, ended_at }: Held, now: number): number | null {
  if (!scheduled_at || allocated_gpus.length === 0) return null;
  const gpus = allocated_gpus.reduce((sum, { share }) => sum + share, 0);
  const until = ended_at ? Date.parse(ended_at) : now;
  return (gpus * Math.max(0, until - Date.parse(scheduled_at))) / HOUR_MS;
}

/** Mean utilization of the devices that a session holds, in percent; null without a reading. */
export function gpuUse({ allocated_gpus }: Pick<Row, "allocated_gpus">): number | null {
  const known = allocated_gpus.flatMap(({ utilization_pct }) => utilization_pct ?? []);
  return known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : null;
}

/**
 * The nodes of the newest attempt: of its GPUs, without any of its kernels.
 *
 * @param nodes the node of each agent.
 */
export function nodesOf(
  { allocated_gpus, kernels }: Pick<Row, "allocated_gpus" | "kernels">,
  nodes: ReadonlyMap<string, string>,
): string[] {
  const ofGpus = allocated_gpus.map(({ node_id }) => node_id);
  const found = ofGpus.length ? ofGpus : kernels.map(({ agent_id }) => nodes.get(agent_id) ?? agent_id);
  return [...new Set(found)];
}
