import type { UsersQuery } from "../../generated/graphql";

export type User = UsersQuery["users"][number];
export type Role = User["role"];

export const ROLES: readonly { readonly id: Role; readonly text: string }[] = [
  { id: "viewer", text: "viewer: looks" },
  { id: "user", text: "user: submits" },
  { id: "operator", text: "operator: changes everybody's" },
  { id: "admin", text: "admin: makes users and keys" },
];

/** A user as it is typed. */
export interface Draft {
  readonly name: string;
  readonly role: Role;
  readonly unix: string;
  readonly projects: string;
  /** 0 = a new one. */
  readonly version: number;
}

export const NEW: Draft = { name: "", role: "user", unix: "", projects: "", version: 0 };

export function draftOf({ name, role, unix_name, projects, version }: User): Draft {
  return { name, role, unix: unix_name ?? "", projects: projects.join(" "), version };
}

/** What both a new user and a change of one say. */
export function inputOf({ name, role, unix, projects }: Draft) {
  return { name: name.trim(), role, unix_name: unix.trim(), projects: projects.split(/[\s,]+/).filter(Boolean) };
}
