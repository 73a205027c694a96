import { ask } from "../api/client";
import { ClusterDocument, type ClusterQuery } from "../generated/graphql";
import { shared } from "../api/sharing";
import { learnNames, titleOf } from "../session/names";
import type { Agent } from "./nodes";

export interface ClusterNow {
  readonly agents: readonly Agent[];
  readonly names: ReadonlyArray<readonly [id: string, name: string]>;
}

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
    fresh.set(
      key,
      shared(
        pages.get(key),
        page.edges.map((edge) => edge.node),
      ),
    );
    after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
  } while (after);
  pages = fresh;
  const agents = [...fresh.values()].flat();
  const held = new Set(
    agents.flatMap((agent) => agent.devices).flatMap((device) => device.holders.map((holder) => holder.session_id)),
  );
  const ids = [...held].filter((id): id is string => id !== null);
  await learnNames(ids);
  return { agents, names: ids.map((id) => [id, titleOf(id)] as const) };
}
