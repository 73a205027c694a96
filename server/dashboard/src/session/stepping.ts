import { useEffect, useRef } from "react";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { SessionStepsDocument, type SessionStepsQuery } from "../generated/graphql";
import type { Course, Step } from "./steps";

const PAGES_MAX = 10;
const NOTHING: Course = { steps: [], isCut: false };

/** What a session went through; only what is new is asked for when it has moved. */
export function useSteps(id: string, version: number): Course {
  const known = useRef<{ id: string; course: Course }>({ id, course: NOTHING });
  const { data, refresh } = useLive(async () => {
    const before = known.current.id === id ? known.current.course : NOTHING;
    const course = await loadSteps(id, before);
    known.current = { id, course };
    return course;
  }, id);
  useEffect(refresh, [refresh, version]);
  return data ?? NOTHING;
}

async function loadSteps(id: string, known: Course): Promise<Course> {
  const newest = known.steps.at(-1)?.number ?? 0;
  let found: Step[] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { session_steps: piece }: SessionStepsQuery = await ask(SessionStepsDocument, { id, after });
    const fresh = piece.edges.map(({ node }) => node).filter(({ number }) => number > newest);
    found = [...fresh.reverse(), ...found];
    if (fresh.length < piece.edges.length) return { steps: [...known.steps, ...found], isCut: known.isCut };
    if (!piece.pageInfo.hasNextPage) return { steps: found, isCut: false };
    after = piece.pageInfo.endCursor;
  }
  return { steps: found, isCut: true };
}
