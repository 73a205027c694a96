import { ask } from "../api/client";
import { SessionNamesDocument } from "../generated/graphql";
import { nameOf } from "./standing";

const NAMES_MAX = 100;
/** Names by id; empty for sessions without a name or without access. */
const known = new Map<string, string>();

/** Loads the names of sessions. A name never changes, so each is loaded once. */
export async function learnNames(ids: Iterable<string>): Promise<void> {
  const unknown = [...new Set(ids)].filter((id) => !known.has(id));
  for (let start = 0; start < unknown.length; start += NAMES_MAX) {
    const some = unknown.slice(start, start + NAMES_MAX);
    const { sessions } = await ask(SessionNamesDocument, { ids: some });
    const names = new Map(sessions.edges.map(({ node }) => [node.id, node.name]));
    for (const id of some) known.set(id, names.get(id) ?? "");
  }
}

/** The name of a session, if it has been loaded; else the end of its id. */
export function titleOf(id: string): string {
  return nameOf({ id, name: known.get(id) || null });
}
