import { connection } from "../api/feed";
import { Closed, SubscriptionFault } from "../api/socket";

/** Pause after a lost connection. */
export const RETRY_MS = 1_000;

/** Why the output cannot be read now, as when its agent is lost or another server leads; "" for other errors. */
export function unavailableReason(error: unknown): string {
  return error instanceof SubscriptionFault && error.code === "unavailable" ? error.message : "";
}

/** Whether the server refused; what may succeed later is retried instead. */
export function isRefusal(error: unknown): boolean {
  return !(error instanceof Closed) && !unavailableReason(error) && connection.get().state === "live";
}
