import { useEffect, useState } from "react";
import { ask } from "../api/client";
import { useLive, type Live } from "../api/live";
import { PreviewDocument, type CreateSessionInput, type PreviewQuery } from "../generated/graphql";

export type Answer = PreviewQuery["preview_session"];
export type Planned = Extract<Answer, { __typename: "SessionPreview" }>;

const PAUSE_MS = 250;

/** What the scheduler would do with a request; asked again with every event. Null while there is no request. */
export function usePreview(request: CreateSessionInput | null): Live<Answer | null> {
  const key = useSettled(request ? JSON.stringify(request) : "");
  return useLive(() => load(key), key, { wants: () => key !== "", everyMs: 10_000 });
}

async function load(key: string): Promise<Answer | null> {
  if (!key) return null;
  return (await ask(PreviewDocument, { input: JSON.parse(key) as CreateSessionInput })).preview_session;
}

/** A value once it has not changed for a moment: nobody is asked in the middle of a word. */
function useSettled(value: string): string {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
