import { FeedDocument, RevisionDocument, type FeedSubscription } from "../generated/graphql";
import { ask, repeatQueries } from "./client";
import { followNumbered } from "./numbered";
import { Observable } from "./observable";
import { signedIn } from "./presence";
import { Socket } from "./socket";
import { serverNow } from "./time";

export type Event = FeedSubscription["queue_updates"];

export interface Connection {
  readonly state: "connecting" | "live" | "lost";
  /** Start of this state by the server's clock, milliseconds since the epoch. */
  readonly since: number;
}

export const connection = new Observable<Connection>({ state: "connecting", since: serverNow() });
/** Sessions that are queued or held; null until known. */
export const pending = new Observable<number | null>(null);

type Listener = (event: Event | "reconnected") => void;
const listeners = new Set<Listener>();

/** Calls the listener for every committed change of a session, and once after each reconnection. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Used only for these events: while it is open, the connection is "live". */
const socket = new Socket(live);

/** Follows the server's events as long as the page exists. */
export function followEvents(): Promise<void> {
  return followNumbered({
    open: events,
    take: ({ queue_updates: event }: FeedSubscription) => {
      publish(event);
      return event.event_number;
    },
    onLost: () => move("lost"),
  });
}

async function* events(after: number | null): AsyncGenerator<FeedSubscription> {
  await signedIn();
  yield* socket.follow(FeedDocument, { after: after ?? (await newest()) });
}

async function newest(): Promise<number> {
  const { queue } = await ask(RevisionDocument, {});
  pending.set(queue.total_count);
  return queue.revision;
}

function live(): void {
  const again = connection.get().state === "lost";
  move("live");
  if (!again) return;
  repeatQueries();
  for (const listener of [...listeners]) listener("reconnected");
}

function publish(event: Event): void {
  pending.set(event.pending);
  for (const listener of [...listeners]) listener(event);
}

function move(state: Connection["state"]): void {
  if (connection.get().state !== state) connection.set({ state, since: serverNow() });
}
