import { ask } from "../api/client";
import {
  FinishedDocument,
  UsageDocument,
  UsageHistoryDocument,
  type FinishedQuery,
  type UsageBy,
  type UsageQuery,
} from "../generated/graphql";
import type { UsageHistory } from "./holdings";
import { RANGES, sinceOf, type Range } from "./ranges";

export type Used = UsageQuery["usage"][number];
export type Finished = FinishedQuery["sessions"]["edges"][number]["node"];

const PAGES_MAX = 5;

export async function loadUsage(): Promise<readonly Used[]> {
  const { usage } = await ask(UsageDocument, {});
  return [...usage].sort((one, other) => other.gpu_hours_month - one.gpu_hours_month);
}

export interface Past {
  /** The newest few hundred sessions, newest first. */
  readonly sessions: readonly Finished[];
  readonly total: number;
}

export async function loadFinished(): Promise<Past> {
  const sessions: Finished[] = [];
  let after: string | null = null;
  let total = 0;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer: FinishedQuery = await ask(FinishedDocument, { after });
    sessions.push(...answer.sessions.edges.map((edge) => edge.node));
    total = answer.sessions.total_count;
    if (!answer.sessions.pageInfo.hasNextPage) break;
    after = answer.sessions.pageInfo.endCursor;
  }
  return { sessions, total };
}

export async function loadUsageHistory(by: UsageBy, range: Range): Promise<UsageHistory> {
  const variables = { by, since: sinceOf(range, Date.now()), step: RANGES[range].stepS };
  return (await ask(UsageHistoryDocument, variables)).usage_history;
}
