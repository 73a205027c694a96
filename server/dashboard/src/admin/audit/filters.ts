import { serverNow } from "../../api/time";
import { moment } from "../../format/times";
import { words } from "../../format/words";
import type { AuditFilterInput, AuditQuery } from "../../generated/graphql";

export type Change = AuditQuery["audit"]["edges"][number]["node"];
export interface Filters {
  readonly subject: string;
  readonly actor: string;
  readonly who: "people" | "all";
}

export const NO_FILTERS: Filters = { subject: "", actor: "", who: "people" };

/** A filter for an actor includes actors that are parts of the server. */
export function filterOf({ subject, actor, who }: Filters): AuditFilterInput {
  return {
    ...(subject.trim() ? { entity_id: subject.trim() } : {}),
    ...(actor.trim() ? { actor: actor.trim() } : {}),
    people_only: who === "people" && !actor.trim(),
  };
}

/** The fields to show of a change: not the record's version, which rises with every change. */
export function fieldsOf({ fields }: Change): Change["fields"] {
  return fields.filter(({ name }) => name !== "version");
}

/** The label of a field: without the unit of a time, which is formatted. */
export function labelOf(name: string): string {
  return words(name.replace(/_us$/, ""));
}

/** The text of a value, which the record has as JSON. */
export function valueOf(name: string, json: string): string {
  const value = parsed(json);
  if (value === null) return "none";
  if (name.endsWith("_us") && typeof value === "number") return moment(value / 1000);
  return typeof value === "string" ? value : json;
}

/** Text that is not JSON is returned as it is. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

/** The time of the browser's control, which is in the viewer's zone, as the API takes it; now when it is empty. */
export function momentOf(local: string, now: number = serverNow()): string {
  return new Date(local || now).toISOString();
}
