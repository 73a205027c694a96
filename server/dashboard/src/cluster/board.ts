import { shared } from "../api/sharing";
import type { AgentPartsFragment, DevicesSubscription } from "../generated/graphql";
import type { Agent, Device } from "./nodes";

type Update = DevicesSubscription["device_updates"];
type Change = Update["agents"][number];

/** The devices of each agent, by its id, as far as somebody was told of them. */
export type Board = ReadonlyMap<string, readonly Device[]>;

/** What is known after an update. What it does not tell of keeps its identity. */
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

/** An agent as it was asked for; with its devices where they were asked for, too. */
export type Asked = AgentPartsFragment & { readonly devices?: readonly Device[] };

/** Agents with their devices: as they are told, or, while nothing is told, as they were asked for. */
export function agentsOf(asked: readonly Asked[], board: Board, isTold: boolean): Agent[] {
  return asked.map((agent) => {
    const told = board.get(agent.id) ?? [];
    return { ...agent, devices: isTold ? told : (agent.devices ?? told) };
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
