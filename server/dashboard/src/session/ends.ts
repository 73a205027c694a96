import { moment } from "../format/times";
import type { SessionState } from "../generated/graphql";

interface Running {
  readonly state: SessionState;
  readonly started_at: string | null;
  readonly time_limit: number | null;
  readonly reserve_until: string | null;
  readonly order_estimate: { readonly explanation: string } | null;
}

/**
 * When a running session ends, and where that is known from: its limit is a fact, its expected run time a guess. Only
 * past its limit is a session overdue.
 */
export function endOf(session: Running, now: number): { readonly text: string; readonly from?: string } {
  const { started_at: started, time_limit: limit, reserve_until: until, order_estimate: estimate } = session;
  if (until !== null && session.state === "preempting")
    return { text: Date.parse(until) < now ? "overdue" : `by ${moment(until, now)}`, from: "its grace period" };
  if (until === null || (limit === null && estimate === null)) return { text: "—" };
  const limitMs = limit !== null && started !== null ? Date.parse(started) + limit * 1000 : null;
  const isLimit = limitMs !== null && Math.abs(Date.parse(until) - limitMs) < 1000;
  const from = isLimit ? "its time limit" : (estimate?.explanation ?? "its time limit");
  const lastMs = limitMs ?? (estimate === null ? Date.parse(until) : Infinity);
  if (lastMs < now) return { text: "overdue", from: `${moment(lastMs, now)}, by its time limit` };
  if (Date.parse(until) < now) {
    const longer = `it has run longer than expected (${from})`;
    if (limitMs === null) return { text: "unknown", from: longer };
    return { text: `by ${moment(limitMs, now)}`, from: `its time limit; ${longer}` };
  }
  return { text: isLimit ? moment(until, now) : `about ${moment(until, now)}`, from };
}
