import { ask } from "../api/client";
import { SessionNamesDocument } from "../generated/graphql";
import { tailOf } from "./standing";

const NAMES_MAX = 100;
/** By id; empty for those that have none, or that are not ours to see. */
const known = new Map<string, string>();

/** Finds out what sessions are called. A name never changes: each is asked for once. */
export async function learnNames(ids: Iterable<string>): Promise<void> {
  const unknown = [...new Set(ids)].filter((id) => !known.has(id));
  for (let start = 0; start < unknown.length; start += NAMES_MAX) {
    const some = unknown.slice(start, start + NAMES_MAX);
    const { sessions } = await ask(SessionNamesDocument, { ids: some });
    const names = new Map(sessions.edges.map(({ node }) => [node.id, node.name]));
    for (const id of some) known.set(id, names.get(id) ?? "");
  }
}

/** What its owner calls it, where that has been learnt; else the end of its id. */
export function titleOf(id: string): string {
  return known.get(id) || tailOf(id);
}
