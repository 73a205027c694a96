import { useEffect } from "react";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { SessionStepsDocument, type SessionStepsQuery } from "../generated/graphql";
import type { Session } from "./loading";
import { isLater, type Course, type Step } from "./steps";

const PAGES_MAX = 10;
const RETRY_MS = 10_000;
const NOTHING: Course = { steps: [], isCut: false };

/** The steps of a session; loaded again after changes, and `RETRY_MS` after a failure. */
export function useSteps(id: string, session: Session): Course {
  const { data, fault, refresh } = useLive(() => loadSteps(id), id);
  // Not its version, which also rises with its priority and with each task of an array.
  const { state, attempt, held_by, preemptions } = session;
  useEffect(refresh, [refresh, state, attempt, held_by, preemptions]);
  useEffect(() => {
    if (!fault) return;
    const timer = setTimeout(refresh, RETRY_MS);
    return () => clearTimeout(timer);
  }, [fault, refresh]);
  return data ?? NOTHING;
}

async function loadSteps(id: string): Promise<Course> {
  const newestFirst: Step[] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { session_steps: piece }: SessionStepsQuery = await ask(SessionStepsDocument, { id, after });
    newestFirst.push(...piece.edges.map(({ node }) => node));
    after = piece.pageInfo.hasNextPage ? piece.pageInfo.endCursor : null;
    if (after === null) break;
  }
  const steps = newestFirst.reverse();
  return { steps, isCut: after !== null || steps.slice(0, 1).some(isLater) };
}
