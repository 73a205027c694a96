import type { ApiKeysQuery } from "../../generated/graphql";
import type { User } from "./draft";

export type Key = ApiKeysQuery["api_keys"][number];
type Ends = Pick<Key, "user" | "revoked_at" | "expires_at" | "is_valid">;
type Account = Pick<User, "name" | "disabled">;

/** Whether a key is rejected only because its user is disabled. */
export function isSuspended(key: Ends, users: readonly Account[], now: number): boolean {
  if (key.revoked_at !== null || (key.expires_at !== null && Date.parse(key.expires_at) <= now)) return false;
  return users.some(({ name, disabled }) => disabled && name === key.user);
}

/** When a key expires, or why it is rejected. */
export function endOf(key: Ends, users: readonly Account[], now: number): string {
  if (key.revoked_at !== null) return `revoked ${key.revoked_at.slice(0, 10)}`;
  if (isSuspended(key, users, now)) return "user disabled";
  if (!key.is_valid) return "expired";
  return key.expires_at?.slice(0, 10) ?? "never";
}

export function budgetOf(key: Key): string {
  const parts = [
    key.gpu_hours_max === null ? "" : `${key.gpu_hours.toFixed(1)} of ${key.gpu_hours_max} GPU-hours`,
    key.sessions_max === null ? "" : `${key.submitted} of ${key.sessions_max} sessions`,
    key.dry_run_first ? "dry run first" : "",
  ];
  return parts.filter(Boolean).join(", ");
}
