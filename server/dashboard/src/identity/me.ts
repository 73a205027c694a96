import { createContext, useContext } from "react";
import { ask } from "../api/client";
import { useLive, type Live } from "../api/live";
import { user } from "../api/presence";
import { MeDocument, type MeQuery } from "../generated/graphql";

export type Me = MeQuery["me"] & {
  /** The highest priority that users may request; operators may request all. */
  readonly priority_max: MeQuery["policy"]["user_priority_max"];
  /** Whether the server shows the living demo, whose users, history and load are invented. */
  readonly is_demo: boolean;
};

/** The signed-in user on every page; null until the server has answered. */
export const MeContext = createContext<Me | null>(null);

export function useIdentity(): Me | null {
  return useContext(MeContext);
}

/** The signed-in user and their role. */
export function useMe(): Live<Me> {
  return useLive(load, "me", { everyMs: 60_000 });
}

async function load(): Promise<Me> {
  const { me, policy, orchestrator } = await ask(MeDocument, {});
  // Another tab of this browser signed in as another user, and this one acts as them too.
  if (me.name !== user.get()) user.set(me.name);
  return { ...me, priority_max: policy.user_priority_max, is_demo: orchestrator.is_demo };
}
