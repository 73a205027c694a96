import { ask } from "../api/client";
import { SessionDocument, type SessionQuery } from "../generated/graphql";
import { learnNames } from "./names";

export type Session = NonNullable<SessionQuery["session"]>;
export type Kernel = Session["kernels"][number];

/** One session; null when there is none of this id, or it is not yours to see. */
export async function loadSession(id: string): Promise<{ readonly session: Session | null }> {
  const { session } = await ask(SessionDocument, { id });
  await learnNames(session?.waits?.blocked_by ?? []);
  return { session };
}
