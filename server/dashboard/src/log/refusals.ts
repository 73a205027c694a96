import { connection } from "../api/feed";
import { Closed } from "../api/socket";

/** Pause after a lost connection. */
export const RETRY_MS = 1_000;

/** Whether the server refused; lost connections and unreachable servers are retried instead. */
export function isRefusal(error: unknown): boolean {
  return !(error instanceof Closed) && connection.get().state === "live";
}
