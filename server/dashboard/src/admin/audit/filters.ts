import { moment } from "../../format/times";
import { words } from "../../format/words";
import type { AuditFilterInput, AuditQuery } from "../../generated/graphql";

export type Change = AuditQuery["audit"]["edges"][number]["node"];
export interface Filters {
  readonly whom: string;
  readonly actor: string;
  readonly who: "people" | "all";
}

export const NO_FILTERS: Filters = { whom: "", actor: "", who: "people" };

/** Whoever asks for somebody by name asks for the server's own parts too. */
export function filterOf({ whom, actor, who }: Filters): AuditFilterInput {
  return {
    ...(whom.trim() ? { entity_id: whom.trim() } : {}),
    ...(actor.trim() ? { actor: actor.trim() } : {}),
    people_only: who === "people" && !actor.trim(),
  };
}

/** What is worth showing of a change: a record's version rises with every one of them. */
export function fieldsOf({ fields }: Change): Change["fields"] {
  return fields.filter(({ name }) => name !== "version");
}

/** A field's name as people read it: times end with their unit, which is shown otherwise. */
export function labelOf(name: string): string {
  return words(name.replace(/_us$/, ""));
}

/** A value, which the record has as JSON, as people read it. */
export function valueOf(name: string, json: string): string {
  const value = parsed(json);
  if (value === null) return "none";
  if (name.endsWith("_us") && typeof value === "number") return moment(value / 1000);
  return typeof value === "string" ? value : json;
}

/** What is no JSON stands for itself. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

/** A moment that the browser's control tells in the viewer's own zone, as the API takes it; now when it is empty. */
export function momentOf(local: string, now: number = Date.now()): string {
  return new Date(local || now).toISOString();
}
