import { ask } from "../api/client";
import { shared } from "../api/sharing";
import { serverNow } from "../api/time";
import { AgentsDocument, BookedDocument, ClusterDocument } from "../generated/graphql";
import type { Asked } from "./board";
import type { Booking } from "./booked";
import type { Agent } from "./nodes";

interface Page<Node> {
  readonly edges: readonly { readonly node: Node }[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
}

/** The last pages, by the cursor before them: unchanged parts keep their identity between answers. */
let pages = new Map<string, readonly Asked[]>();

/** All agents with their devices. */
export function loadCluster(): Promise<readonly Agent[]> {
  return everyPage(async (after) => (await ask(ClusterDocument, { after })).agents);
}

/** All agents, without their devices. */
export function loadAgents(): Promise<readonly Asked[]> {
  return everyPage(async (after) => (await ask(AgentsDocument, { after })).agents);
}

/** How far ahead the cluster page shows bookings. */
const AHEAD_MS = 12 * 3_600_000;

/** The bookings of now and of the next hours. */
export async function loadBooked(): Promise<readonly Booking[]> {
  const now = serverNow();
  const window = { since: new Date(now).toISOString(), until: new Date(now + AHEAD_MS).toISOString() };
  return (await ask(BookedDocument, window)).reservations;
}

async function everyPage<Node extends Asked>(load: (after: string | null) => Promise<Page<Node>>): Promise<Node[]> {
  const fresh = new Map<string, readonly Node[]>();
  let after: string | null = null;
  do {
    const page: Page<Node> = await load(after);
    // Page by page: comparing thousands of devices in one step would delay rendering.
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
