import { amountOf } from "../format/amounts";
import type { AgentPartsFragment, DevicePartsFragment } from "../generated/graphql";

export type Device = DevicePartsFragment;
export type Agent = AgentPartsFragment & { readonly devices: readonly Device[] };
export type Holder = Device["holders"][number];

export interface Node {
  readonly id: string;
  readonly hostname: string;
  readonly agents: readonly Agent[];
  /** Accelerators, each once, even if several agents share them. */
  readonly devices: readonly Device[];
  /** Ids of the devices that are held but nearly unused. */
  readonly idle: ReadonlySet<string>;
  /** Ids of the devices of which no agent accepts new work. */
  readonly closed: ReadonlySet<string>;
  readonly cpu: Amounts;
  readonly mem: Amounts;
}

export interface Amounts {
  readonly used: number;
  readonly capacity: number;
}

/** See `linkGroups`; each agent numbers its own groups, and devices that several agents share are listed once. */
export function linksOf({ agents }: Pick<Node, "agents">): string[] {
  return [...new Set(agents.flatMap((agent) => linkGroups(agent.devices.filter(isAccelerator))))];
}

/**
 * Names of the devices of an agent that are connected by direct links, a text for each group: `cuda0–cuda7`, or
 * `cuda0, cuda2`.
 */
export function linkGroups(devices: readonly Pick<Device, "name" | "link_group">[]): string[] {
  const groups = new Map<number, number[]>();
  devices.forEach(({ link_group: group }, place) => {
    if (group !== null) groups.set(group, [...(groups.get(group) ?? []), place]);
  });
  return [...groups.values()]
    .filter((places) => places.length > 1)
    .map((places) => {
      const first = places[0] ?? 0;
      const last = places.at(-1) ?? 0;
      const isRun = places.length > 2 && last - first + 1 === places.length;
      const names = places.map((place) => devices[place]?.name ?? "");
      return isRun ? `${names[0]}–${names.at(-1)}` : names.join(", ");
    });
}

/** A device is idle if it has been held for `IDLE_AFTER_MS` and its utilization is below this. */
export const IDLE_PCT = 5;
const IDLE_AFTER_MS = 60_000;
const MINUTE_MS = 60_000;

/** The agents grouped by node, in the order of the first agent of each node. */
export function nodesOf(agents: readonly Agent[], now: number): Node[] {
  const byNode = new Map<string, Agent[]>();
  for (const agent of agents) {
    const group = byNode.get(agent.node_id);
    if (group) group.push(agent);
    else byNode.set(agent.node_id, [agent]);
  }
  return [...byNode].map(([id, group]) => nodeOf(id, group, now));
}

function nodeOf(id: string, agents: readonly Agent[], now: number): Node {
  const all = new Map<string, Device>();
  for (const agent of agents) for (const device of agent.devices) all.set(device.id, device);
  const devices = [...all.values()];
  const open = new Set(agents.filter(acceptsWork).flatMap((agent) => agent.devices.map(({ id }) => id)));
  return {
    id,
    hostname: agents[0]?.hostname ?? id,
    agents,
    devices: devices.filter(isAccelerator),
    idle: new Set(devices.filter((device) => isIdle(device, now)).map((device) => device.id)),
    closed: new Set(devices.filter(isAccelerator).flatMap(({ id }) => (open.has(id) ? [] : [id]))),
    cpu: amountsOf(devices.filter((device) => device.kind === "cpu")),
    mem: amountsOf(devices.filter((device) => device.kind === "mem")),
  };
}

/** Whether the scheduler may place something new on an agent. */
function acceptsWork({ state, schedulable, draining }: Agent): boolean {
  return state === "alive" && schedulable && !draining;
}

/** The holders of accelerators, once per device. */
export function holdersOf(nodes: readonly Node[]): Holder[] {
  return nodes.flatMap((node) => node.devices).flatMap((device) => device.holders);
}

/** The sessions that hold these devices. */
export function sessionsOn(devices: readonly Pick<Device, "holders">[]): string[] {
  const ids = new Set(devices.flatMap((device) => device.holders.map((holder) => holder.session_id)));
  return [...ids].filter((id) => id !== null);
}

export function isAccelerator(device: Device): boolean {
  return device.kind !== "cpu" && device.kind !== "mem";
}

export function amountsOf(devices: readonly Pick<Device, "used" | "capacity">[]): Amounts {
  return devices.reduce(
    (sum, device) => ({
      used: sum.used + amountOf(device.used),
      capacity: sum.capacity + amountOf(device.capacity),
    }),
    { used: 0, capacity: 0 },
  );
}

/** A time by which held devices will be free, and their total number. */
export interface Freed {
  readonly count: number;
  /** Milliseconds since the epoch. */
  readonly by: number;
}

const FREED_SHOWN = 3;

/**
 * When held devices are free again at the latest, by minute: the first times at which all of their holders have ended.
 * Devices that nothing new is placed on do not count.
 */
export function freedOf(nodes: readonly Node[]): Freed[] {
  const ends = nodes
    .flatMap(({ devices, closed }) => devices.filter(({ id }) => !closed.has(id)))
    .filter(({ holders }) => holders.length > 0 && holders.every(({ until }) => until))
    .map(({ holders }) => Math.max(...holders.map(({ until }) => Date.parse(until ?? ""))))
    .map((end) => Math.ceil(end / MINUTE_MS) * MINUTE_MS);
  return [...new Set(ends)]
    .sort((one, other) => one - other)
    .slice(0, FREED_SHOWN)
    .map((by) => ({ by, count: ends.filter((end) => end <= by).length }));
}

/** Whether a device is held but nearly unused; false without a measurement. */
export function isIdle(device: Pick<Device, "holders" | "utilization_pct">, now: number): boolean {
  const { holders, utilization_pct: busy } = device;
  if (holders.length === 0 || busy === null || busy >= IDLE_PCT) return false;
  return holders.every((holder) => now - Date.parse(holder.since) >= IDLE_AFTER_MS);
}

/**
 * Whether a device is not schedulable: it is unhealthy, or foreign processes use it. A device that is leaving is
 * no problem: it was removed from the configuration, and its holders keep it until they end.
 */
export function isUnwell(device: Pick<Device, "health" | "foreign_usage">): boolean {
  return (device.health !== "healthy" && device.health !== "leaving") || device.foreign_usage;
}

/** The problem of a device, in a word or two; empty if it has none. */
export function ailment(device: Pick<Device, "health" | "foreign_usage" | "foreign_users">): string {
  if (device.health !== "healthy" && device.health !== "leaving") return device.health;
  if (!device.foreign_usage) return "";
  const users = device.foreign_users.join(", ");
  return users ? `used by foreign processes of ${users}` : "used by foreign processes";
}

/**
 * The free part of a device that is partly held, which only a request for a share can use. 0 if the device is free, fully
 * held, or leaving, as it is then not allocated again.
 */
export function fragmentOf(device: Pick<Device, "free" | "used" | "health">): number {
  return amountOf(device.used) > 0 && device.health !== "leaving" ? amountOf(device.free) : 0;
}

export interface Totals {
  readonly devices: number;
  readonly held: number;
  readonly capacity: number;
  /** Whole devices that a session may start on. */
  readonly wholeFree: number;
  /** Those of `wholeFree` that are booked now, so that only sessions of the booking may start on them. */
  readonly booked: number;
  /** Whole devices that are free, on nodes that accept no new work. */
  readonly wholeClosed: number;
  readonly fragments: number;
  readonly idle: number;
  readonly unwell: number;
  readonly agentsAway: number;
}

/** @param booked ids of the devices that are booked now. */
export function totalsOf(nodes: readonly Node[], booked: ReadonlySet<string> = new Set()): Totals {
  const devices = nodes.flatMap((node) => node.devices);
  const { used, capacity } = amountsOf(devices);
  const closed = new Set(nodes.flatMap((node) => [...node.closed]));
  const unheld = devices.filter((device) => amountOf(device.used) === 0 && !isUnwell(device));
  const free = unheld.filter(({ id }) => !closed.has(id));
  return {
    devices: devices.length,
    held: used,
    capacity,
    wholeFree: free.length,
    booked: free.filter(({ id }) => booked.has(id)).length,
    wholeClosed: unheld.length - free.length,
    fragments: devices.reduce((sum, device) => sum + fragmentOf(device), 0),
    idle: nodes.reduce((sum, node) => sum + node.idle.size, 0),
    unwell: devices.filter(isUnwell).length,
    agentsAway: nodes.flatMap((node) => node.agents).filter((agent) => agent.state !== "alive").length,
  };
}
