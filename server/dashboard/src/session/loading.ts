import { ask } from "../api/client";
import { SessionDocument, type SessionPartsFragment } from "../generated/graphql";
import type { Found } from "./found";
import { learnNames } from "./names";

export type Session = SessionPartsFragment;
export type Kernel = Session["kernels"][number];

export async function loadSession(id: string): Promise<Found> {
  const { agents, session } = await ask(SessionDocument, { id });
  await learnNames(session?.waits?.blocked_by ?? []);
  return { session, revision: agents.revision };
}
