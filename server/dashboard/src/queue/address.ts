import type { SessionOrder } from "../generated/graphql";
import { ACTIVE, ENDED, WAITING } from "../session/standing";
import type { SessionState } from "../generated/graphql";
import { ANY, NO_FILTERS, type Filters } from "./filters";

export type View = "waiting" | "active" | "ended";

/** What the address says: the table, the states in it, filters and the order. */
export interface Place {
  readonly view: View;
  /** One state of the view; `ANY` = all of them. */
  readonly state: SessionState | typeof ANY;
  readonly filters: Filters;
  /** Empty = the order of scheduling for waiting sessions, else newest first. */
  readonly sort: SessionOrder | "";
}

export const STATES: Readonly<Record<View, readonly SessionState[]>> = {
  waiting: WAITING,
  active: ACTIVE,
  ended: ENDED,
};
/** The name of a view in the address. */
const NAMES: Readonly<Record<View, string>> = { waiting: "waiting", active: "running", ended: "ended" };

export const SORTS: Readonly<Record<SessionOrder, string>> = {
  newest: "newest first",
  oldest: "oldest first",
  priority_desc: "highest priority first",
  priority_asc: "lowest priority first",
  started_desc: "last started first",
  started_asc: "first started first",
  ended_desc: "last ended first",
  ended_asc: "first ended first",
  gpus_desc: "most GPUs first",
  gpus_asc: "fewest GPUs first",
  name_asc: "name, A to Z",
  name_desc: "name, Z to A",
};
const TEXTS = ["owner", "project", "tag", "array", "priority", "reason"] as const;

/** Reads the search part of an address; missing and invalid values do not filter. */
export function placeOf(search: URLSearchParams): Place {
  const text = search.get("state") ?? "";
  const view = viewOf(text);
  const sort = search.get("sort") ?? "";
  const given = TEXTS.flatMap((name) => {
    const value = search.get(name);
    return value ? [[name, value] as const] : [];
  });
  return {
    view,
    // `running` is the name of the view, which has the states before it too.
    state: text !== NAMES[view] && STATES[view].some((one) => one === text) ? (text as SessionState) : ANY,
    filters: { ...NO_FILTERS, ...Object.fromEntries(given), text: search.get("q") ?? "" },
    sort: Object.hasOwn(SORTS, sort) ? (sort as SessionOrder) : "",
  };
}

/** The inverse of `placeOf`: defaults are left out. */
export function searchOf({ view, state, filters, sort }: Place): string {
  const search = new URLSearchParams();
  const named = state === ANY ? NAMES[view] : state;
  if (named !== "waiting") search.set("state", named);
  if (filters.text) search.set("q", filters.text);
  for (const name of TEXTS) if (filters[name] !== NO_FILTERS[name]) search.set(name, filters[name]);
  if (sort) search.set("sort", sort);
  return search.toString();
}

function viewOf(text: string): View {
  const views = Object.keys(STATES) as View[];
  return (
    views.find((view) => NAMES[view] === text) ??
    views.find((view) => STATES[view].some((state) => state === text)) ??
    "waiting"
  );
}
