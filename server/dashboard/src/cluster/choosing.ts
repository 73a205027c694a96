import type { Node } from "./nodes";

/** Filters of the cluster, as in the address; empty does not filter. */
export interface Chosen {
  readonly pool: string;
  readonly model: string;
  readonly user: string;
  readonly node: string;
}

export const NAMES = ["pool", "model", "user", "node"] as const satisfies readonly (keyof Chosen)[];

/** Devices from this number on are shown as a heat map. */
export const HEAT_FROM = 64;

export function chosenIn(search: URLSearchParams): Chosen {
  const [pool = "", model = "", user = "", node = ""] = NAMES.map((name) => search.get(name) ?? "");
  return { pool, model, user, node };
}

/** The nodes with the devices that are chosen; a node without any is left out if devices are filtered. */
export function chosenNodes(nodes: readonly Node[], { pool, model, user, node }: Chosen): readonly Node[] {
  if (!pool && !model && !user && !node) return nodes;
  return nodes
    .filter((one) => (!pool || one.agents.some((agent) => agent.pool === pool)) && (!node || one.id === node))
    .map((one) => ({
      ...one,
      devices: one.devices.filter(
        (device) =>
          (!model || device.model === model) && (!user || device.holders.some((holder) => holder.user === user)),
      ),
    }))
    .filter((one) => one.devices.length > 0 || (!model && !user));
}

/** The values to choose from, sorted. */
export function choicesOf(nodes: readonly Node[]): Readonly<Record<keyof Chosen, readonly string[]>> {
  const devices = nodes.flatMap((node) => node.devices);
  return {
    pool: distinct(nodes.flatMap((node) => node.agents.map((agent) => agent.pool))),
    model: distinct(devices.map((device) => device.model)),
    user: distinct(devices.flatMap((device) => device.holders.map((holder) => holder.user))),
    node: distinct(nodes.map((node) => node.id)),
  };
}

/** The model of all devices, or "" if they differ. */
export function commonModel(devices: Node["devices"]): string {
  const models = distinct(devices.map(({ model }) => model));
  return models.length === 1 ? (models[0] ?? "") : "";
}

/** A model without its maker, which is the same for most. */
export function shortModel(model: string): string {
  return model.replace(/^NVIDIA /, "");
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)].filter(Boolean).sort();
}
