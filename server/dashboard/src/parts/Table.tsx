import type { ReactNode } from "react";

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
  return (
    <div className="panel scroll" tabIndex={0} role="region" aria-label={label}>
      <Table {...table} />
    </div>
  );
}

function Heading({ name, isFigure, isHidden, title, content }: Column) {
  return (
    <th className={isFigure ? "figure" : undefined} title={title}>
      {content ?? (isHidden ? <span className="hidden">{name}</span> : name)}
    </th>
  );
}
