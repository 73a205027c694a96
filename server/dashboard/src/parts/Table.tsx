import { useLayoutEffect, useRef, type FocusEvent, type ReactNode, type RefObject } from "react";

export interface Column {
  readonly name: string;
  /** Numbers: right-aligned, with figures of equal width. */
  readonly isFigure?: boolean;
  /** The name is only for screen readers, as for a column of buttons. */
  readonly isHidden?: boolean;
  readonly title?: string;
  /** Shown instead of the name. */
  readonly content?: ReactNode;
}

/** The last column of a table whose rows have actions. */
export const ACTIONS: Column = { name: "Actions", isHidden: true };

export function figure(name: string, title?: string): Column {
  return title === undefined ? { name, isFigure: true } : { name, isFigure: true, title };
}

interface Props {
  readonly columns: readonly (Column | string)[];
  readonly className?: string;
  readonly children: ReactNode;
}

/** A table with headings; the children are its rows. */
export function Table({ columns, className, children }: Props) {
  return (
    <table className={className}>
      <thead>
        <tr>
          {columns
            .map((column) => (typeof column === "string" ? { name: column } : column))
            .map((column) => (
              <Heading key={column.name} {...column} />
            ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

/** A table in a panel that can be scrolled, also by keyboard. */
export function TablePanel({ label, ...table }: Props & { readonly label: string }) {
  const panel = useRef<HTMLDivElement>(null);
  const focus = useKeptFocus(panel);
  return (
    <div className="panel scroll" tabIndex={0} role="region" aria-label={label} ref={panel} {...focus}>
      <Table {...table} />
    </div>
  );
}

/** Selects what takes the focus in a row. */
export const CONTROLS = "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled)";

/** Keeps the focus at its row: an action moves or removes the row of the button, and with it the browser's focus. */
function useKeptFocus(panel: RefObject<HTMLElement | null>) {
  const last = useRef<{ readonly row: HTMLTableRowElement; readonly index: number; readonly at: number } | null>(null);
  useLayoutEffect(() => {
    const rows = panel.current?.querySelectorAll<HTMLTableRowElement>("tbody > tr");
    if (!last.current || !rows || document.activeElement !== document.body) return;
    const { row, index, at } = last.current;
    const next = row.isConnected ? row : rows[Math.min(index, rows.length - 1)];
    const controls = next?.querySelectorAll<HTMLElement>(CONTROLS) ?? [];
    (controls[Math.min(at, controls.length - 1)] ?? panel.current)?.focus({ preventScroll: !row.isConnected });
  });
  return {
    onFocus: ({ target }: FocusEvent) => {
      const row = target.closest<HTMLTableRowElement>("tbody > tr");
      const at = row ? [...row.querySelectorAll(CONTROLS)].indexOf(target) : 0;
      last.current = row && { row, index: row.sectionRowIndex, at: Math.max(at, 0) };
    },
    onBlur: () => (last.current = null),
  };
}

function Heading({ name, isFigure, isHidden, title, content }: Column) {
  return (
    <th className={isFigure ? "figure" : undefined} title={title}>
      {content ?? (isHidden ? <span className="hidden">{name}</span> : name)}
    </th>
  );
}
