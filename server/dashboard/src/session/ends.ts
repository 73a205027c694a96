import { moment } from "../format/times";

interface Running {
  readonly started_at: string | null;
  readonly time_limit: number | null;
  readonly reserve_until: string | null;
  readonly order_estimate: { readonly explanation: string } | null;
}

/** When a running session ends, and where that is known from: its limit is a fact, its expected run time a guess. */
export function endOf(session: Running, now: number): { readonly text: string; readonly from?: string } {
  const { started_at: started, time_limit: limit, reserve_until: until, order_estimate: estimate } = session;
  if (until === null || (limit === null && estimate === null)) return { text: "—" };
  const limitMs = limit !== null && started !== null ? Date.parse(started) + limit * 1000 : null;
  const isLimit = limitMs !== null && Math.abs(Date.parse(until) - limitMs) < 1000;
  const from = isLimit ? "its time limit" : (estimate?.explanation ?? "its time limit");
  if (Date.parse(until) < now) return { text: "overdue", from: `${moment(until, now)}, by ${from}` };
  return { text: isLimit ? moment(until, now) : `about ${moment(until, now)}`, from };
}
