import { useState } from "react";
import { PAGE_ROWS, type Page, type Part } from "./loading";

/** Rows of a part: all of them are queried again with every event. */
export const ROWS_MAX = 2_000;
const FIRST: Part = { rows: PAGE_ROWS, after: null, skipped: 0 };

export interface Parts {
  readonly part: Part;
  readonly isFirst: boolean;
  /** Loads more rows of the part. */
  readonly grow: (rows: number) => void;
  /** Goes to the rows after a page. */
  readonly next: (page: Page) => void;
  readonly previous: () => void;
}

/** The part of a table that is loaded; a change of `scope` goes back to the first. */
export function useParts(scope: string): Parts {
  const [state, setState] = useState({ scope, parts: [FIRST] });
  const parts = state.scope === scope ? state.parts : [FIRST];
  const part = parts.at(-1) ?? FIRST;
  const go = (next: Part[]) => setState({ scope, parts: next });
  return {
    part,
    isFirst: parts.length === 1,
    grow: (rows) => go([...parts.slice(0, -1), { ...part, rows: Math.min(rows, ROWS_MAX) }]),
    next: ({ from, entries, next }) => {
      // Pressed again while the next rows are loaded.
      if (next === part.after) return;
      go([...parts, { rows: ROWS_MAX, after: next, skipped: from + entries.length }]);
    },
    previous: () => go(parts.slice(0, -1)),
  };
}

/** How many sessions are shown, and of how many. */
export function countOf(page: Page, shown: number): string {
  if (page.isFound) return `${shown}${page.isCut ? " or more" : ""} found`;
  const loaded = page.entries.length;
  if (page.from === 0) return `${shown} of ${page.total}`;
  return `${shown === loaded ? "" : `${shown} among `}${page.from + 1} to ${page.from + loaded} of ${page.total}`;
}
