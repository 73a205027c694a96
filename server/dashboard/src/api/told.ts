import { useEffect, useRef, useState } from "react";
import type { AnyVariables, TypedDocumentNode } from "@urql/core";
import { followNumbered } from "./numbered";
import { useObservable } from "./observable";
import { seen } from "./seen";
import { Socket } from "./socket";

interface Stream<Data, Variables> {
  readonly document: TypedDocumentNode<Data, Variables>;
  /** To begin after a number; null: with how things stand. */
  readonly variables: (after: number | null) => Variables;
  /** Takes an update in; the next one waits for that. Returns its number. */
  readonly take: (update: Data) => number | Promise<number>;
}

const socket = new Socket();

/**
 * Follows what is numbered while the page is looked at. Returns whether it is told of what changes: something came, and
 * the connection has not been lost since. What changes meanwhile is told once it is back.
 */
export function useTold<Data, Variables extends AnyVariables>(key: string, stream: Stream<Data, Variables>): boolean {
  const [told, setTold] = useState<string | null>(null);
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
          if (!control.signal.aborted) setTold(key);
          return own.after;
        },
        onLost: () => setTold(null),
      },
      { after: own.after, signal: control.signal },
    );
    return () => {
      control.abort();
      setTold(null);
    };
  }, [key, isSeen]);
  return told === key;
}
