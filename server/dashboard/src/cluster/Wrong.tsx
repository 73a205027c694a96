import { wordsOf } from "./AgentState";
import { ailment, isUnwell, type Node } from "./nodes";

const SHOWN = 4;

/** What is wrong, worst first, in one short list. */
export function Wrong({ nodes }: { readonly nodes: readonly Node[] }) {
  const lines = linesOf(nodes);
  return (
    <section className="panel brief whole" aria-label="What is wrong">
      <h2>Wrong</h2>
      {lines.length === 0 ? <p className="quiet">Nothing that is known of.</p> : null}
      <ul>
        {lines.slice(0, SHOWN).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      {lines.length > SHOWN ? <p className="quiet">and {lines.length - SHOWN} more</p> : null}
    </section>
  );
}

function linesOf(nodes: readonly Node[]): string[] {
  const agents = nodes.flatMap((node) => node.agents).filter((agent) => agent.state !== "alive" || agent.draining);
  const devices = nodes.flatMap((node) => node.devices.map((device) => ({ node, device })));
  const unwell = devices.filter(({ device }) => isUnwell(device));
  const idle = devices.filter(({ node, device }) => node.idle.has(device.id));
  return [
    ...agents.map((agent) => `Agent ${agent.id} is ${wordsOf(agent)}${agent.note ? `: ${agent.note}` : "."}`),
    ...unwell.map(({ node, device }) => `${device.name} on ${node.hostname} is ${ailment(device)}.`),
    ...(idle.length
      ? [
          `${idle.length} held and idle: ${idle
            .slice(0, 3)
            .map(({ node, device }) => `${device.name} on ${node.hostname}`)
            .join(", ")}${idle.length > 3 ? " …" : ""}`,
        ]
      : []),
  ];
}
