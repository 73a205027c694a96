import type { Alert } from "../alerts/open";
import { wordsOf } from "./agents";
import { ailment, isUnwell, type Node } from "./nodes";

/** One thing that is wrong. */
export interface Line {
  readonly key: string;
  readonly text: string;
  readonly tone: "bad" | "warn" | "quiet";
  /** When an alert was opened for it. */
  readonly since: string | null;
}

const TONES = { critical: "bad", warning: "warn", info: "quiet" } as const;
const ORDER = ["bad", "warn", "quiet"] as const;
const NAMED = 3;

/** What is wrong, worst first: alerts, and what is seen of agents and devices that no alert is open for. */
export function wrongsOf(nodes: readonly Node[], alerts: readonly Alert[]): Line[] {
  const known = new Set(alerts.map((alert) => alert.subject));
  const agents = nodes
    .flatMap((node) => node.agents)
    .filter((agent) => (agent.state !== "alive" || agent.draining) && !known.has(agent.id));
  const all = nodes.flatMap((node) => node.devices.map((device) => ({ node, device })));
  const unwell = all.filter(
    ({ node, device }) => isUnwell(device) && !node.agents.some((agent) => known.has(`${agent.id}/${device.id}`)),
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
    ...unwell.map(({ node, device }) => line(`${device.name} on ${node.hostname} is ${ailment(device)}.`)),
    ...(idle.length ? [line(idleWords(idle.map(({ node, device }) => `${device.name} on ${node.hostname}`)))] : []),
  ];
  return lines.sort((one, other) => ORDER.indexOf(one.tone) - ORDER.indexOf(other.tone));
}

function line(text: string): Line {
  return { key: text, text, tone: "warn", since: null };
}

function idleWords(names: readonly string[]): string {
  return `${names.length} held and idle: ${names.slice(0, NAMED).join(", ")}${names.length > NAMED ? " …" : ""}`;
}
