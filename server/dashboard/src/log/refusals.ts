import { connection } from "../api/feed";
import { Closed } from "../api/socket";

/** After a lost connection. */
export const RETRY_MS = 1_000;

/** Whether the server said no: what was cut off, or cannot reach it, is tried again. */
export function isRefusal(error: unknown): boolean {
  return !(error instanceof Closed) && connection.get().state === "live";
}
