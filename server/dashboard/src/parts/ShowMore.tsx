import { useLayoutEffect, useRef } from "react";
import { Button } from "react-aria-components";
import { CONTROLS } from "./Table";

interface Props {
  /** Selects the table. */
  readonly within: string;
  /** Number of rows that are loaded. */
  readonly rows: number;
  readonly hasMore: boolean;
  readonly onMore: () => void;
}

/** Loads more rows of a table. The keyboard goes on at the first new one; the button may be gone by then. */
export function ShowMore({ within, rows, hasMore, onMore }: Props) {
  const button = useRef<HTMLButtonElement>(null);
  const shown = useRef<{ readonly rows: number; readonly last: Element | undefined } | null>(null);
  useLayoutEffect(() => {
    if (shown.current === null || rows <= shown.current.rows) return;
    const { last } = shown.current;
    shown.current = null;
    const { activeElement: active } = document;
    if (active !== document.body && active !== button.current) return;
    focusOn((last?.isConnected ? last.nextElementSibling : null) ?? [...rowsIn(within)].at(-1));
  }, [rows, within]);
  if (!hasMore) return null;
  const more = () => {
    shown.current = { rows, last: [...rowsIn(within)].at(-1) };
    onMore();
  };
  return (
    <Button className="button" ref={button} onPress={more}>
      Show more
    </Button>
  );
}

function rowsIn(within: string): NodeListOf<HTMLElement> {
  return document.querySelectorAll<HTMLElement>(`${within} tbody > tr`);
}

/** Focuses the first control of a row, or the row. */
function focusOn(row: Element | null | undefined): void {
  if (!(row instanceof HTMLElement)) return;
  const control = row.querySelector<HTMLElement>(CONTROLS);
  if (!control) row.tabIndex = -1;
  (control ?? row).focus();
}
