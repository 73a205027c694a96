import { useState } from "react";
import { useLive, type Live } from "../api/live";
import { shared } from "../api/sharing";
import { useTold } from "../api/told";
import { SessionUpdatesDocument } from "../generated/graphql";
import { newerOf, type Found } from "./found";
import { loadSession } from "./loading";
import { learnNames } from "./names";
import { isWaiting } from "./standing";

const EVERY_MS = 10_000;
const EVERY_UNTOLD_MS = 3_000;

/**
 * One session: told of each of its changes, and of those of its kernels. It is asked for at first, while nothing is
 * told, and while it waits: its place in line and the reason change without an event of its own.
 */
export function useSession(id: string): Live<Found> {
  const [told, setTold] = useState<Found | null>(null);
  const isTold = useTold(id, {
    document: SessionUpdatesDocument,
    // How it stands comes first, each time: one that is quiet would be told of nothing after a number.
    variables: () => ({ id }),
    take: async ({ session_updates: { event_number: revision, session } }) => {
      await learnNames(session.waits?.blocked_by ?? []).catch(() => undefined);
      setTold((old) => shared(old, { session, revision }));
      return revision;
    },
  });
  const own = told?.session?.id === id ? told : null;
  const isAllTold = isTold && own?.session && !isWaiting(own.session.state);
  const asked = useLive(() => loadSession(id), id, {
    ...(isAllTold ? {} : { everyMs: isTold ? EVERY_MS : EVERY_UNTOLD_MS }),
    wants: ({ session }) => session.id === id && isWaiting(session.state),
  });
  return { ...asked, data: newerOf(asked.data, own) };
}
