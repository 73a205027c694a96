import type { Column } from "../parts/Table";
import { useIdentity } from "../identity/me";
import { mayChange } from "../identity/rights";
import { nameOf } from "../session/standing";
import type { Entry, Row } from "./loading";
import type { Selection } from "./selection";

/** The heading of the first column: selects all rows that may be changed. */
export function useSelectColumn(entries: readonly Entry[], selection: Selection): Column {
  const me = useIdentity();
  const rows = entries.map(({ session }) => session).filter((session) => mayChange(me, session));
  return {
    name: "Select",
    content: (
      <label className="select-all">
        <input
          type="checkbox"
          aria-label="Select all"
          disabled={rows.length === 0}
          checked={rows.length > 0 && rows.every(({ id }) => selection.ids.has(id))}
          onChange={() => selection.toggleAll(rows)}
        />
        {/* Shown only where the rows are blocks, without other headings. */}
        <span>Select all</span>
      </label>
    ),
  };
}

/** Selects a session for an action on several; the browser's own control, as there may be hundreds. */
export function SelectCell({ session, selection }: { readonly session: Row; readonly selection: Selection }) {
  const isMine = mayChange(useIdentity(), session);
  return (
    <td className="select">
      <input
        type="checkbox"
        aria-label={`Select ${nameOf(session)}`}
        title={isMine ? undefined : "Only its owner, members of its project and operators may change it."}
        disabled={!isMine}
        checked={selection.ids.has(session.id)}
        onChange={() => selection.toggle(session.id)}
      />
    </td>
  );
}
