import { wordsOf } from "./agents";
import type { Agent } from "./nodes";

const TONES = { alive: "good", suspect: "warn", lost: "bad", left: "quiet" } as const;

/** A badge with the state of an agent. */
export function AgentState({ agent, isNamed }: { readonly agent: Agent; readonly isNamed: boolean }) {
  const words = wordsOf(agent);
  const tone = agent.state === "alive" && words !== "alive" ? "warn" : TONES[agent.state];
  return (
    <span className={`badge fill-${tone}`} title={agent.note ?? undefined}>
      {isNamed ? `${agent.id} ` : ""}
      {words}
    </span>
  );
}
