import { duration } from "../format/times";
import type { Row } from "./loading";

/** The latest start of a waiting session as text; a dash if there is no promise. */
export function expectedStart(session: Pick<Row, "expected_start">, now: number): string {
  if (!session.expected_start) return "—";
  const ms = Date.parse(session.expected_start) - now;
  return ms > 0 ? `in ${duration(ms)}` : "now";
}
