import { useEffect, useRef, useState } from "react";
import type { AnyVariables, TypedDocumentNode } from "@urql/core";
import { followNumbered } from "./numbered";
import { useObservable } from "./observable";
import { seen } from "./seen";
import { Socket } from "./socket";

interface Stream<Data, Variables> {
  readonly document: TypedDocumentNode<Data, Variables>;
  /** The variables to start after a number; null starts with a snapshot. */
  readonly variables: (after: number | null) => Variables;
  /** Processes an update before the next one is read, and returns its number. */
  readonly take: (update: Data) => number | Promise<number>;
}

const socket = new Socket();

/**
 * Follows a numbered subscription while the page is visible. Returns whether it is up to date: an update arrived, and the
 * connection was not lost since. Changes in between arrive after the reconnection.
 */
export function useSubscription<Data, Variables extends AnyVariables>(
  key: string,
  stream: Stream<Data, Variables>,
): boolean {
  const [current, setCurrent] = useState<string | null>(null);
  const isSeen = useObservable(seen);
  const latest = useRef(stream);
  latest.current = stream;
  const place = useRef<{ readonly key: string; after: number | null }>({ key, after: null });
  useEffect(() => {
    if (!isSeen) return undefined;
    if (place.current.key !== key) place.current = { key, after: null };
    const own = place.current;
    const { document, variables } = latest.current;
    const control = new AbortController();
    void followNumbered<Data>(
      {
        open: (after) => socket.follow(document, variables(after), control.signal),
        take: async (update) => {
          own.after = await latest.current.take(update);
          if (!control.signal.aborted) setCurrent(key);
          return own.after;
        },
        onLost: () => setCurrent(null),
      },
      { after: own.after, signal: control.signal },
    );
    return () => {
      control.abort();
      setCurrent(null);
    };
  }, [key, isSeen]);
  return current === key;
}
