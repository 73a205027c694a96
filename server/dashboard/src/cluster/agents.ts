import type { Agent } from "./nodes";

/** The state of an agent, in a word or two. */
export function wordsOf(agent: Pick<Agent, "state" | "drained" | "draining" | "schedulable">): string {
  if (agent.state !== "alive") return agent.state;
  if (agent.drained) return "drained";
  if (agent.draining) return "draining";
  return agent.schedulable ? "alive" : "not schedulable";
}
