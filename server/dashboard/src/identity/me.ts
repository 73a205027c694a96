import { createContext, useContext } from "react";
import { ask } from "../api/client";
import { useLive, type Live } from "../api/live";
import { user } from "../api/presence";
import { KeyScopesDocument, MeDocument, type KeyScope, type MeQuery } from "../generated/graphql";

export type Me = MeQuery["me"] & {
  /** The highest priority that users may request; operators may request all. */
  readonly priority_max: MeQuery["policy"]["user_priority_max"];
  /** Whether the server shows the living demo, whose users, history and load are invented. */
  readonly is_demo: boolean;
  /** The scope of the key in use, if it is what gives the role; the user's own role may be higher. */
  readonly scope: KeyScope | null;
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
  const scope = me.role === "admin" || me.key_id === null ? undefined : await scopeOf(me.key_id);
  return {
    ...me,
    priority_max: policy.user_priority_max,
    is_demo: orchestrator.is_demo,
    scope: scope && ROLES[scope] === me.role ? scope : null,
  };
}

const ROLES: Readonly<Record<KeyScope, Me["role"]>> = {
  read: "viewer",
  submit: "user",
  operate: "operator",
  admin: "admin",
};
/** By key: a scope never changes, so each is loaded once. */
const scopes = new Map<string, KeyScope | undefined>();

/** The scope of a key of the signed-in user; undefined for a token of the identity provider. */
async function scopeOf(key: string): Promise<KeyScope | undefined> {
  if (!scopes.has(key)) {
    const { api_keys: keys } = await ask(KeyScopesDocument, {});
    scopes.set(key, keys.find(({ id }) => id === key)?.scope);
  }
  return scopes.get(key);
}
