import { duration } from "../format/times";
import type { Row } from "./loading";

/** When a session that waits starts at the latest, in words; a dash where nothing is promised to it. */
export function expectedStart(session: Pick<Row, "expected_start">, now: number): string {
  if (!session.expected_start) return "—";
  const ms = Date.parse(session.expected_start) - now;
  return ms > 0 ? `in ${duration(ms)}` : "now";
}
