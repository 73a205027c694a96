import { ask } from "../api/client";
import { shared } from "../api/sharing";
import { AgentsDocument, ClusterDocument } from "../generated/graphql";
import type { Asked } from "./board";
import type { Agent } from "./nodes";

interface Page<Node> {
  readonly edges: readonly { readonly node: Node }[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
}

/** By the cursor that the page came after: what did not change keeps its identity from answer to answer. */
let pages = new Map<string, readonly Asked[]>();

/** All agents with their devices. */
export function loadCluster(): Promise<readonly Agent[]> {
  return everyPage(async (after) => (await ask(ClusterDocument, { after })).agents);
}

/** All agents, without their devices. */
export function loadAgents(): Promise<readonly Asked[]> {
  return everyPage(async (after) => (await ask(AgentsDocument, { after })).agents);
}

async function everyPage<Node extends Asked>(load: (after: string | null) => Promise<Page<Node>>): Promise<Node[]> {
  const fresh = new Map<string, readonly Node[]>();
  let after: string | null = null;
  do {
    const page: Page<Node> = await load(after);
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
  return [...fresh.values()].flat();
}
