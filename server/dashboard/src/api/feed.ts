import { FeedDocument, RevisionDocument, type FeedSubscription } from "../generated/graphql";
import { ask } from "./client";
import { followNumbered } from "./numbered";
import { Observable } from "./observable";
import { signedIn } from "./presence";
import { Socket } from "./socket";

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

/** Hears every committed change of a session, and once after each time that the connection was lost. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** It carries these alone: that it is open is what "live" means. */
const socket = new Socket(live);

/** Follows the server's events for as long as the page lives. */
export function followEvents(): Promise<void> {
  return followNumbered({
    open: events,
    take: ({ queue_updates: event }: FeedSubscription) => {
      tell(event);
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
  if (again) for (const listener of [...listeners]) listener("reconnected");
}

function tell(event: Event): void {
  pending.set(event.pending);
  for (const listener of [...listeners]) listener(event);
}

function move(state: Connection["state"]): void {
  if (connection.get().state !== state) connection.set({ state, since: Date.now() });
}
