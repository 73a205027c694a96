import { duration } from "../format/times";
import type { Row } from "./loading";

/**
 * When a session that waits is expected to start, in words. The API tells one moment so far: when the session is known
 * to be looked at again.
 */
export function expectedStart(session: Pick<Row, "waits">, now: number): string {
  const until = session.waits?.until;
  if (!until) return "—";
  const ms = Date.parse(until) - now;
  return ms > 0 ? `in ${duration(ms)}` : "now";
}
