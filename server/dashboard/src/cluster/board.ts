import { shared } from "../api/sharing";
import type { AgentPartsFragment, DevicesSubscription } from "../generated/graphql";
import type { Agent, Device } from "./nodes";

type Update = DevicesSubscription["device_updates"];
type Change = Update["agents"][number];

/** The devices of each agent, by its id, from the updates so far. */
export type Board = ReadonlyMap<string, readonly Device[]>;

/** The board after an update; unchanged parts keep their identity. */
export function boardAfter(board: Board, update: Update): Board {
  const next = new Map(update.is_snapshot ? [] : board);
  for (const id of update.agents_gone) next.delete(id);
  for (const change of update.agents) {
    const known = next.get(change.agent_id) ?? [];
    const devices = update.is_snapshot ? change.devices : devicesAfter(known, change);
    next.set(change.agent_id, shared(board.get(change.agent_id), devices));
  }
  return next;
}

/** An agent from a query, with its devices if they were queried. */
export type Asked = AgentPartsFragment & { readonly devices?: readonly Device[] };

/** Agents with their devices: from updates, or from the query while there are no updates. */
export function agentsOf(asked: readonly Asked[], board: Board, isSubscribed: boolean): Agent[] {
  return asked.map((agent) => {
    const updated = board.get(agent.id) ?? [];
    return { ...agent, devices: isSubscribed ? updated : (agent.devices ?? updated) };
  });
}

function devicesAfter(known: readonly Device[], { devices, devices_gone }: Change): readonly Device[] {
  const fresh = new Map(devices.map((device) => [device.id, device]));
  const gone = new Set(devices_gone);
  const kept = known.filter(({ id }) => !gone.has(id)).map((device) => fresh.get(device.id) ?? device);
  for (const { id } of kept) fresh.delete(id);
  if (fresh.size === 0 || kept.length === 0) return [...kept, ...fresh.values()];
  return [...kept, ...fresh.values()].sort((one, other) => byNumber.compare(one.name, other.name));
}

const byNumber = new Intl.Collator("en", { numeric: true });
