import { useState } from "react";
import { useLive, type Live } from "../api/live";
import { shared } from "../api/sharing";
import { useSubscription } from "../api/subscription";
import { SessionUpdatesDocument } from "../generated/graphql";
import { isGone, newerOf, type Found } from "./found";
import { loadSession } from "./loading";
import { learnNames } from "./names";
import { isWaiting } from "./standing";

const EVERY_MS = 10_000;
const EVERY_UNSUBSCRIBED_MS = 3_000;

/**
 * One session. Its changes and those of its kernels come by subscription. It is also queried at first, while the
 * subscription is down, and while it waits, as its position and the reason change without an event of its own.
 */
export function useSession(id: string): Live<Found> {
  const [updated, setUpdated] = useState<(Found & { readonly at: number }) | null>(null);
  const isSubscribed = useSubscription(id, {
    document: SessionUpdatesDocument,
    // Always starts with a snapshot: after a number, an unchanged session would send nothing.
    variables: () => ({ id }),
    take: async ({ session_updates: { event_number: revision, session } }) => {
      await learnNames(session.waits?.blocked_by ?? []).catch(() => undefined);
      setUpdated((old) => shared(old, { session, revision, at: Date.now() }));
      return revision;
    },
  });
  const own = updated?.session?.id === id ? updated : null;
  const isComplete = isSubscribed && own?.session && !isWaiting(own.session.state);
  const asked = useLive(() => loadSession(id), id, {
    ...(isComplete ? {} : { everyMs: isSubscribed ? EVERY_MS : EVERY_UNSUBSCRIBED_MS }),
    wants: ({ session }) => session.id === id && isWaiting(session.state),
  });
  const known = own && !isSubscribed && isGone(asked, own.at) ? null : own;
  return { ...asked, data: newerOf(asked.data, known) };
}
