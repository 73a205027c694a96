import { ask, Refusal } from "../api/client";
import { learnNames } from "../session/names";
import {
  QueueDocument,
  SessionsDocument,
  type QueueQuery,
  type RowFragment,
  type SessionFilter,
  type SessionOrder,
} from "../generated/graphql";

export type Row = RowFragment;
export interface Entry {
  readonly position: number | null;
  readonly session: Row;
}
export interface Page {
  readonly total: number;
  readonly entries: readonly Entry[];
  /** Rows before these. */
  readonly from: number;
  /** Where the rows after these begin; null = there are none. */
  readonly next: string | null;
  /** Whether this is the result of a search; `isCut`: only the first of too many. */
  readonly isFound?: boolean;
  readonly isCut?: boolean;
  /** Free GPUs while quotas hold waiting sessions back, as a sentence; null = none. */
  readonly idle?: string | null;
  /** Per pool with waiting sessions: how much later a session may arrive and still pass an earlier one. */
  readonly bounds?: readonly { readonly pool: string; readonly text: string }[];
}

export const PAGE_ROWS = 100;
const HEAD_ROWS = 4;

/** A part of a table: its first rows, or those after a cursor. */
export interface Part {
  readonly rows: number;
  readonly after: string | null;
  /** Rows before it. */
  readonly skipped: number;
}

/** The head of the queue. */
export async function loadHead(): Promise<Page> {
  return queuePage(await ask(QueueDocument, { first: HEAD_ROWS, after: null }));
}

/** A part of the queue, in the order of scheduling. */
export async function loadQueue(part: Part): Promise<Page> {
  const page = await loadPart(part, async (after) => queuePage(await ask(QueueDocument, { first: PAGE_ROWS, after })));
  // Sessions before the part may have started since.
  return { ...page, from: (page.entries[0]?.position ?? page.from + 1) - 1 };
}

/** A part of the sessions that match. */
export function loadSessions(filter: SessionFilter, part: Part, order: SessionOrder): Promise<Page> {
  return loadPart(part, async (after) => {
    const { sessions } = await ask(SessionsDocument, { filter, first: PAGE_ROWS, after, order });
    const { hasNextPage, endCursor } = sessions.pageInfo;
    return {
      total: sessions.total_count,
      entries: sessions.edges.map(({ node }) => ({ position: node.queue_position, session: node })),
      from: 0,
      next: hasNextPage ? endCursor : null,
    };
  });
}

/** The part, read page by page; the first one if all sessions at its cursor have left the table. */
async function loadPart(part: Part, read: (after: string | null) => Promise<Page>): Promise<Page> {
  const entries: Entry[] = [];
  let after = part.after;
  for (;;) {
    const page: Page | null = await read(after).catch((error: unknown) => {
      if (after === null || !(error instanceof Refusal) || error.fault.kind !== "refused") throw error;
      return null;
    });
    if (page === null) return loadPart({ ...part, after: null, skipped: 0 }, read);
    entries.push(...page.entries);
    if (entries.length >= part.rows || page.next === null) {
      await learnNames(entries.flatMap(({ session }) => session.waits?.blocked_by ?? []));
      return { ...page, entries, from: part.skipped };
    }
    after = page.next;
  }
}

function queuePage({ queue, idle_behind_quotas, pools }: QueueQuery): Page {
  return {
    total: queue.total_count,
    entries: queue.edges.map(({ node: { session } }) => ({ position: session.queue_position, session })),
    from: 0,
    next: queue.pageInfo.hasNextPage ? queue.pageInfo.endCursor : null,
    idle: idle_behind_quotas?.message ?? null,
    bounds: pools.filter((pool) => pool.total_queued > 0).map((pool) => ({ pool: pool.name, text: pool.order_bound })),
  };
}
