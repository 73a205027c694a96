import { ask } from "../api/client";
import {
  FairSharesDocument,
  FinishedDocument,
  ForecastAccuracyDocument,
  StatementDocumentDocument,
  StatementsDocument,
  UsageDocument,
  UsageHistoryDocument,
  type DocumentFormat,
  type FairSharesQuery,
  type FinishedQuery,
  type ForecastAccuracyQuery,
  type StatementsQuery,
  type UsageBy,
  type UsageQuery,
} from "../generated/graphql";
import type { UsageHistory } from "./holdings";
import { beforeNow } from "../history/loading";
import type { Period } from "./ranges";

export type Used = UsageQuery["usage"][number];
export type ForecastAccuracy = ForecastAccuracyQuery["forecast_accuracy"];
export type Finished = FinishedQuery["sessions"]["edges"][number]["node"];

export type FairShare = FairSharesQuery["fair_shares"][number];
export type Statement = StatementsQuery["statements"][number];

export async function loadFairShares(): Promise<readonly FairShare[]> {
  return (await ask(FairSharesDocument, {})).fair_shares;
}

export async function loadStatements(month: string): Promise<readonly Statement[]> {
  return (await ask(StatementsDocument, { month })).statements;
}

export async function loadStatement(project: string, month: string, format: DocumentFormat): Promise<string> {
  return (await ask(StatementDocumentDocument, { project, month, format })).statement_document;
}

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

export async function loadForecastAccuracy(): Promise<ForecastAccuracy> {
  return (await ask(ForecastAccuracyDocument, {})).forecast_accuracy;
}

export async function loadUsageHistory(by: UsageBy, { since, until, stepS }: Period): Promise<UsageHistory> {
  const variables = { by, since, until: beforeNow(until), step: stepS };
  return (await ask(UsageHistoryDocument, variables)).usage_history;
}
