import { ask } from "../../api/client";
import { AuditDocument, type AuditQuery } from "../../generated/graphql";
import { filterOf, type Change, type Filters } from "./filters";

export interface Changes {
  readonly changes: readonly Change[];
  readonly hasMore: boolean;
}

export const PAGE_ROWS = 50;

/** At least `rows` changes, newest first, if there are as many. */
export async function loadChanges(filters: Filters, rows: number): Promise<Changes> {
  const changes: Change[] = [];
  let after: string | null = null;
  for (;;) {
    const answer: AuditQuery = await ask(AuditDocument, { filter: filterOf(filters), first: PAGE_ROWS, after });
    changes.push(...answer.audit.edges.map(({ node }) => node));
    const hasMore = answer.audit.pageInfo.hasNextPage;
    if (changes.length >= rows || !hasMore) return { changes, hasMore };
    after = answer.audit.pageInfo.endCursor;
  }
}
