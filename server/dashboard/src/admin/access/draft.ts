import { secondsOf } from "../../format/times";
import type { UsersQuery } from "../../generated/graphql";

const DAY_S = 86_400;

export type User = UsersQuery["users"][number];
export type Role = User["role"];

export const ROLES: readonly { readonly id: Role; readonly text: string }[] = [
  { id: "viewer", text: "viewer: read only" },
  { id: "user", text: "user: submits sessions" },
  { id: "operator", text: "operator: changes all sessions" },
  { id: "admin", text: "admin: manages users and keys" },
];

/** The form of a user. */
export interface Draft {
  readonly name: string;
  readonly role: Role;
  readonly unix: string;
  readonly projects: string;
  /** 0 for a new user. */
  readonly version: number;
}

export const NEW: Draft = { name: "", role: "user", unix: "", projects: "", version: 0 };

export function draftOf({ name, role, unix_name, projects, version }: User): Draft {
  return { name, role, unix: unix_name ?? "", projects: projects.join(" "), version };
}

/** The input fields that creation and change have in common. */
export function inputOf({ name, role, unix, projects }: Draft) {
  return { name: name.trim(), role, unix_name: unix.trim(), projects: projects.split(/[\s,]+/).filter(Boolean) };
}

/** The lifetime of a key in seconds: a plain number is days, text with a unit is a duration; null is no end. */
export function lifetimeOf(text: string): number | null {
  if (text.trim() === "") return null;
  return Number.isNaN(Number(text)) ? secondsOf(text) : Number(text) * DAY_S;
}
