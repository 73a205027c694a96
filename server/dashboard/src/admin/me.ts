import { ask } from "../api/client";
import { useLive, type Live } from "../api/live";
import { MeDocument, type MeQuery } from "../generated/graphql";

/** The signed-in user and their role. */
export function useMe(): Live<MeQuery["me"]> {
  return useLive(async () => (await ask(MeDocument, {})).me, "me", { everyMs: 60_000 });
}
