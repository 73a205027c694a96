import type { Me } from "./me";

type Rights = Pick<Me, "name" | "role" | "projects" | "priority_max"> | null;

type Standing = Pick<Me, "role" | "scope"> | null;

const LEVELS = ["low", "normal", "high", "critical"] as const;

/** Whether the user may change agents, quotas, the policy and all sessions. */
export function mayOperate(me: Rights): boolean {
  return me?.role === "operator" || me?.role === "admin";
}

export function maySubmit(me: Rights): boolean {
  return me !== null && me.role !== "viewer";
}

/** Whether the user may cancel, hold, run again or reprioritise a session: their own, or as an operator. */
export function mayChange(me: Rights, session: { readonly owner: string; readonly project: string }): boolean {
  if (mayOperate(me)) return true;
  return me !== null && maySubmit(me) && (session.owner === me.name || me.projects.includes(session.project));
}

/** Whether the user may open terminals and apps of a session: its owner, operators, and members that it is shared with. */
export function mayOpen(
  me: Rights,
  session: { readonly owner: string; readonly project: string; readonly shares_access: boolean },
): boolean {
  if (me === null || !maySubmit(me)) return false;
  const isMember = session.shares_access && me.projects.includes(session.project);
  return session.owner === me.name || mayOperate(me) || isMember;
}

/** Whether the user may release a held session: one held by an operator only as an operator. */
export function mayRelease(
  me: Rights,
  session: { readonly owner: string; readonly project: string; readonly held_by: string | null },
): boolean {
  return mayOperate(me) || (mayChange(me, session) && session.held_by === me?.name);
}

/** The priorities that the user may request, and `current`, which may be higher. */
export function prioritiesOf(me: Rights, current: string): (typeof LEVELS)[number][] {
  const highest = mayOperate(me)
    ? LEVELS.length - 1
    : LEVELS.findIndex((level) => level === (me?.priority_max ?? "normal"));
  return LEVELS.filter((level, index) => index <= highest || level === current);
}

/** Why the user sees no controls for an operator's actions. */
export function operatorsOnly(me: Standing, what: string): string {
  const why = me?.scope
    ? `the key that you signed in with has the scope ${me.scope}, which gives the role ${me.role}`
    : `your role is ${me?.role ?? "not known yet"}`;
  return `Operators and admins can ${what}; ${why}.`;
}

/** Why a viewer cannot submit, and what to do about it. */
export function readsOnly(me: Standing): string {
  return me?.scope
    ? `The key that you signed in with has the scope ${me.scope}, which may read only. Sign in with a key of the scope submit or wider.`
    : "Your role is viewer, which may read only. Ask an admin of the cluster for the role user.";
}
