import { ask } from "../api/client";
import { ClusterDocument, SessionNamesDocument, type ClusterQuery } from "../generated/graphql";
import { shared } from "../api/sharing";
import type { Agent } from "./nodes";

const NAMES_MAX = 100;

export interface ClusterNow {
  readonly agents: readonly Agent[];
  readonly names: ReadonlyArray<readonly [id: string, name: string]>;
}

const known = new Map<string, string>();
/** By the cursor that the page came after: what did not change keeps its identity from answer to answer. */
let pages = new Map<string, readonly Agent[]>();

/** All agents, and what the sessions that hold something are called. */
export async function loadCluster(): Promise<ClusterNow> {
  const fresh = new Map<string, readonly Agent[]>();
  let after: string | null = null;
  do {
    const { agents: page }: ClusterQuery = await ask(ClusterDocument, { after });
    // Page by page: thousands of devices at once would hold up the drawing.
    const key: string = after ?? "";
    fresh.set(key, shared(pages.get(key), page.edges.map((edge) => edge.node)));
    after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
  } while (after);
  pages = fresh;
  const agents = [...fresh.values()].flat();
  const held = new Set(agents.flatMap((agent) => agent.devices).flatMap((device) => device.holders.map((holder) => holder.session_id)));
  const ids = [...held].filter((id): id is string => id !== null);
  await learnNames(ids);
  return { agents, names: ids.flatMap((id) => (known.get(id) ? [[id, known.get(id) ?? ""] as const] : [])) };
}

/** A session's name never changes: each is asked for once. */
async function learnNames(ids: readonly string[]): Promise<void> {
  const unknown = ids.filter((id) => !known.has(id));
  for (let start = 0; start < unknown.length; start += NAMES_MAX) {
    const { sessions } = await ask(SessionNamesDocument, { ids: unknown.slice(start, start + NAMES_MAX) });
    for (const { node } of sessions.edges) known.set(node.id, node.name ?? "");
  }
}
