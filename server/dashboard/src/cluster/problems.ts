import type { Alert } from "../alerts/open";
import { TONES } from "../alerts/tones";
import { wordsOf } from "./agents";
import { ailment, isUnwell, type Device, type Node } from "./nodes";

/** A user, and how many devices they hold. */
export interface Owner {
  readonly name: string;
  readonly count: number;
}

/** One problem. */
export interface Line {
  readonly key: string;
  readonly text: string;
  /** Whose sessions the text is about, those with most devices first. */
  readonly owners: readonly Owner[];
  readonly tone: (typeof ORDER)[number];
  /** Time at which its alert was opened. */
  readonly since: string | null;
}

const ORDER = ["bad", "warn", "quiet"] as const;

/** The problems, worst first: open alerts, and problems of agents and devices without an alert. */
export function problemsOf(nodes: readonly Node[], alerts: readonly Alert[]): Line[] {
  const reported = new Set(alerts.map(({ rule, subject }) => `${rule} ${subject}`));
  const agents = nodes
    .flatMap((node) => node.agents)
    .filter(({ state, draining }) => state !== "alive" || draining)
    .filter(({ id, state }) => state !== "lost" || !reported.has(`agent_lost ${id}`));
  const all = nodes.flatMap((node) => node.devices.map((device) => ({ node, device })));
  const unwell = all.filter(
    ({ node, device }) =>
      isUnwell(device) && !node.agents.some(({ id }) => reported.has(`${ruleOf(device)} ${id}/${device.id}`)),
  );
  const idle = all.filter(({ node, device }) => node.idle.has(device.id)).map(({ device }) => device);
  const lines: Line[] = [
    ...alerts.map((alert) => ({
      key: alert.id,
      text: alert.message,
      owners: [],
      tone: TONES[alert.severity],
      since: alert.opened_at,
    })),
    ...agents.map((agent) => ({
      ...line(`Agent ${agent.id} is ${wordsOf(agent)}${agent.note ? `: ${agent.note}` : "."}`),
      tone: agent.state === "lost" ? ("bad" as const) : ("warn" as const),
    })),
    ...unwell.map(({ node, device }) => ({
      ...line(`${device.name} on ${node.hostname} is ${ailment(device)}.`),
      key: device.id,
    })),
    ...(idle.length ? [{ ...line(`${idle.length} held and idle:`), key: "idle", owners: ownersOf(idle) }] : []),
  ];
  return lines.sort((one, other) => ORDER.indexOf(one.tone) - ORDER.indexOf(other.tone));
}

/** The alert rule for the problem of a device. */
function ruleOf({ health }: Device): Alert["rule"] {
  return health === "healthy" || health === "leaving" ? "external_process" : "device_unhealthy";
}

function line(text: string): Line {
  return { key: text, text, owners: [], tone: "warn", since: null };
}

/** The users who hold these devices, with how many of them; a shared device counts for each. */
function ownersOf(devices: readonly Device[]): Owner[] {
  const counts = new Map<string, number>();
  for (const { holders } of devices)
    for (const user of new Set(holders.map((holder) => holder.user))) counts.set(user, (counts.get(user) ?? 0) + 1);
  return [...counts]
    .map(([name, count]) => ({ name, count }))
    .sort((one, other) => other.count - one.count || (one.name < other.name ? -1 : 1));
}
