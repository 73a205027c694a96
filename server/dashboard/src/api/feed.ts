import { FeedDocument, RevisionDocument, type FeedSubscription } from "../generated/graphql";
import { ask } from "./client";
import { Observable } from "./observable";
import { signedIn } from "./presence";
import { Closed, Socket } from "./socket";

export type Event = FeedSubscription["queue_updates"];

export interface Connection {
  readonly state: "connecting" | "live" | "lost";
  /** Milliseconds since the epoch: when this state began. */
  readonly since: number;
}

export const connection = new Observable<Connection>({ state: "connecting", since: Date.now() });
/** Sessions that are queued or held; null until known. */
export const pending = new Observable<number | null>(null);

type Listener = (event: Event | "reconnected") => void;
const listeners = new Set<Listener>();
const WAIT_FIRST_MS = 250;
const WAIT_MAX_MS = 5_000;

/** Hears every committed change of a session, and once after each time that the connection was lost. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows the server's events for as long as the page lives. */
export async function followEvents(): Promise<never> {
  let wait = WAIT_FIRST_MS;
  const socket = new Socket(() => {
    wait = WAIT_FIRST_MS;
    live();
  });
  let after: number | null = null;
  for (;;) {
    await signedIn();
    try {
      after ??= await newest();
      for await (const { queue_updates: event } of socket.follow(FeedDocument, { after })) {
        after = event.event_number;
        tell(event);
      }
    } catch (error) {
      // A refusal may be of events that are no longer kept: then from now on.
      if (!(error instanceof Closed)) after = null;
    }
    move("lost");
    await pause(wait);
    wait = Math.min(wait * 2, WAIT_MAX_MS);
  }
}

async function newest(): Promise<number> {
  const { queue } = await ask(RevisionDocument, {});
  pending.set(queue.total_count);
  return queue.revision;
}

function live(): void {
  const again = connection.get().state === "lost";
  move("live");
  if (again) for (const listener of [...listeners]) listener("reconnected");
}

function tell(event: Event): void {
  pending.set(event.pending);
  for (const listener of [...listeners]) listener(event);
}

function move(state: Connection["state"]): void {
  if (connection.get().state !== state) connection.set({ state, since: Date.now() });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
