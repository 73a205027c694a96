import type { Alert } from "../alerts/open";
import { TONES } from "../alerts/tones";
import { wordsOf } from "./agents";
import { ailment, isUnwell, type Device, type Node } from "./nodes";

/** One problem. */
export interface Line {
  readonly key: string;
  readonly text: string;
  readonly tone: (typeof ORDER)[number];
  /** Time at which its alert was opened. */
  readonly since: string | null;
}

const ORDER = ["bad", "warn", "quiet"] as const;
const NAMED = 3;

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
  const idle = all.filter(({ node, device }) => node.idle.has(device.id));
  const lines: Line[] = [
    ...alerts.map((alert) => ({
      key: alert.id,
      text: alert.message,
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
    ...(idle.length ? [line(idleWords(idle.map(({ node, device }) => `${device.name} on ${node.hostname}`)))] : []),
  ];
  return lines.sort((one, other) => ORDER.indexOf(one.tone) - ORDER.indexOf(other.tone));
}

/** The alert rule for the problem of a device. */
function ruleOf({ health }: Device): Alert["rule"] {
  return health === "healthy" || health === "leaving" ? "external_process" : "device_unhealthy";
}

function line(text: string): Line {
  return { key: text, text, tone: "warn", since: null };
}

function idleWords(names: readonly string[]): string {
  return `${names.length} held and idle: ${names.slice(0, NAMED).join(", ")}${names.length > NAMED ? " …" : ""}`;
}
