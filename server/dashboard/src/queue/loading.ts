import { ask } from "../api/client";
import { learnNames } from "../session/names";
import {
  QueueDocument,
  SessionsDocument,
  type QueueQuery,
  type RowFragment,
  type SessionOrder,
  type SessionState,
  type SessionsQuery,
} from "../generated/graphql";

export type Row = RowFragment;
export interface Entry {
  readonly position: number | null;
  readonly session: Row;
}
export interface Page {
  readonly total: number;
  readonly entries: readonly Entry[];
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

/** The head of the queue. */
export async function loadHead(): Promise<Page> {
  return queuePage(await ask(QueueDocument, { first: HEAD_ROWS, after: null }));
}

/** The first `rows` sessions of the queue, in the order of scheduling. */
export async function loadQueue(rows: number): Promise<Page> {
  const entries: Entry[] = [];
  let after: string | null = null;
  for (;;) {
    const answer: QueueQuery = await ask(QueueDocument, { first: PAGE_ROWS, after });
    entries.push(...queuePage(answer).entries);
    if (entries.length >= rows || !answer.queue.pageInfo.hasNextPage) {
      await learnNames(entries.flatMap(({ session }) => session.waits?.blocked_by ?? []));
      return { ...queuePage(answer), entries };
    }
    after = answer.queue.pageInfo.endCursor;
  }
}

/** The first `rows` sessions in one of these states. */
export async function loadSessions(
  states: readonly SessionState[],
  rows: number,
  order: SessionOrder = "newest",
): Promise<Page> {
  const entries: Entry[] = [];
  let after: string | null = null;
  for (;;) {
    const { sessions }: SessionsQuery = await ask(SessionsDocument, {
      filter: { states },
      first: PAGE_ROWS,
      after,
      order,
    });
    entries.push(...sessions.edges.map(({ node }) => ({ position: node.queue_position, session: node })));
    if (entries.length >= rows || !sessions.pageInfo.hasNextPage) {
      await learnNames(entries.flatMap(({ session }) => session.waits?.blocked_by ?? []));
      return { total: sessions.total_count, entries };
    }
    after = sessions.pageInfo.endCursor;
  }
}

function queuePage({ queue, idle_behind_quotas, pools }: QueueQuery): Page {
  return {
    total: queue.total_count,
    entries: queue.edges.map(({ node: { session } }) => ({ position: session.queue_position, session })),
    idle: idle_behind_quotas?.message ?? null,
    bounds: pools.filter((pool) => pool.total_queued > 0).map((pool) => ({ pool: pool.name, text: pool.order_bound })),
  };
}
