import { type ReactNode } from "react";
import { Button } from "react-aria-components";
import { ShowMore } from "../parts/ShowMore";
import { ANY, type Filters } from "./filters";
import { PAGE_ROWS, type Page } from "./loading";
import { ROWS_MAX, type Parts } from "./parts";

/** What "Select all" leaves out because it is not loaded; null if all is loaded. */
export function unloadedOf(page: Page, parts: Parts): ReactNode {
  if (page.isFound) return page.isCut ? "More sessions match; only those loaded are selected." : null;
  const more = page.total - page.entries.length;
  if (more <= 0) return null;
  return (
    <>
      {more === 1 ? "1 more is" : `${more} more are`} not loaded, and not selected.{" "}
      {page.entries.length < ROWS_MAX && page.next !== null ? (
        <LoadAll page={page} parts={parts} />
      ) : (
        "Go to them with the buttons below the table."
      )}
    </>
  );
}

interface Props {
  readonly page: Page;
  readonly parts: Parts;
}

function LoadAll({ page, parts }: Props) {
  if (page.next === null) return null;
  const load = () => {
    parts.grow(ROWS_MAX);
    // The pressed button goes away when the rows are loaded.
    document.getElementById("content")?.focus({ preventScroll: true });
  };
  const last = page.from + ROWS_MAX;
  return (
    <Button className="button" onPress={load}>
      Load {page.total <= last ? "all" : page.from === 0 ? `the first ${last}` : `up to row ${last}`}
    </Button>
  );
}

/** Loads more of the sessions: more rows of the part, then the parts before and after it. */
export function More({ page, parts, filters }: Props & { readonly filters: Filters }) {
  const loaded = page.entries.length;
  const isFull = loaded >= ROWS_MAX;
  const rest = Math.max(page.total - page.from - loaded, 1);
  const turn = (go: () => void) => {
    go();
    scrollTo(0, 0);
    document.getElementById("content")?.focus({ preventScroll: true });
  };
  return (
    <div className="row">
      {parts.isFirst ? null : (
        <Button className="button" onPress={() => turn(parts.previous)}>
          Previous {ROWS_MAX}
        </Button>
      )}
      <ShowMore
        within=".queue"
        rows={loaded}
        hasMore={page.next !== null && !isFull}
        onMore={() => parts.grow(loaded + 4 * PAGE_ROWS)}
      />
      {page.next !== null && !isFull ? <LoadAll page={page} parts={parts} /> : null}
      {page.next !== null && isFull ? (
        <Button className="button" onPress={() => turn(() => parts.next(page))}>
          Next {Math.min(rest, ROWS_MAX)}
        </Button>
      ) : null}
      {isFull ? <span className="quiet small">The table shows {ROWS_MAX} sessions at a time.</span> : null}
      {filters.reason !== ANY && (page.next !== null || page.from > 0) ? (
        <span className="quiet small">
          The reason filter covers {page.from === 0 ? "the first" : `${page.from + 1} to`} {page.from + loaded} of{" "}
          {page.total}.
        </span>
      ) : null}
    </div>
  );
}
