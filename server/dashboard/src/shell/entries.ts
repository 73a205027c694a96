import type { Me } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { arrayOf, nameOf } from "../session/standing";

/** Something to go to, or to do. */
export interface Entry {
  readonly kind: string;
  readonly text: string;
  readonly path: string;
  /** Searched too, but not shown. */
  readonly id?: string;
  readonly act?: () => void;
  /** Whether it is a document of its own, outside of the dashboard. */
  readonly isDocument?: boolean;
}

/** The letter after `g` that leads to a page. */
export const LETTERS: Readonly<Record<string, { readonly path: string; readonly text: string }>> = {
  c: { path: "/", text: "Cluster" },
  q: { path: "/sessions", text: "Sessions" },
  k: { path: "/calendar", text: "Calendar" },
  s: { path: "/submit", text: "Submit" },
  w: { path: "/what-if", text: "What if" },
  u: { path: "/usage", text: "Usage" },
  a: { path: "/admin", text: "Admin" },
};

const TABS = ["policy", "quotas", "alerts", "backtest", "doctor", "audit", "access"] as const;

/** The pages, and what can be done from everywhere. */
export function pageEntries(me: Me | null): Entry[] {
  const mine = encodeURIComponent(me?.name ?? "");
  return [
    ...Object.values(LETTERS)
      .filter(({ path }) => path !== "/submit" || maySubmit(me))
      .map(({ path, text }) => ({ kind: "page", text, path })),
    { kind: "page", text: "Who held what in the last 24 hours", path: "/?view=history" },
    { kind: "page", text: "My running sessions", path: `/sessions?state=running&owner=${mine}` },
    { kind: "page", text: "My failed sessions", path: `/sessions?state=failed&owner=${mine}` },
    ...TABS.map((tab) => ({ kind: "page", text: `Admin: ${tab}`, path: `/admin?tab=${tab}` })),
    { kind: "page", text: "My secrets", path: "/admin?tab=access" },
    { kind: "page", text: "GraphiQL", path: "/graphiql", isDocument: true },
    { kind: "page", text: "Documentation", path: "/docs/", isDocument: true },
  ];
}

interface FoundSession {
  readonly id: string;
  readonly name: string | null;
  readonly owner: string;
  readonly state: string;
}

/** Sessions; before the first task of an array the array itself, which the many tasks may have kept from being found. */
export function sessionEntries(sessions: readonly FoundSession[]): Entry[] {
  const listed = new Set(sessions.map(({ id }) => id));
  return sessions.flatMap((session) => {
    const own = { id: session.id, name: session.name, kind: `session, ${session.state}, ${session.owner}` };
    const array = arrayOf(session.id);
    const found = [own];
    if (array && !listed.has(array)) {
      listed.add(array);
      found.unshift({ id: array, name: session.name, kind: `job array, ${session.owner}` });
    }
    return found.map(({ id, name, kind }) => ({ kind, text: nameOf({ id, name }), path: `/sessions/${id}`, id }));
  });
}

/** The entries with every word in their text, kind or id; those that begin with the text first. */
export function matchingEntries(entries: readonly Entry[], text: string): Entry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const begins = (entry: Entry) => words.length > 0 && entry.text.toLowerCase().startsWith(words[0] ?? "");
  return entries
    .filter(({ text: own, kind, id }) => {
      const hay = `${own} ${kind} ${id ?? ""}`.toLowerCase();
      return words.every((word) => hay.includes(word));
    })
    .sort((one, other) => Number(begins(other)) - Number(begins(one)));
}

/** What a key means, after the key before it; null = nothing. */
export function shortcutOf(key: string, before: string): "search" | "help" | { readonly path: string } | null {
  if (before === "g") {
    const page = LETTERS[key];
    return page ? { path: page.path } : null;
  }
  return key === "/" ? "search" : key === "?" ? "help" : null;
}
