import { Fragment } from "react";
import { Link } from "wouter";
import { moment } from "../../format/times";
import { words } from "../../format/words";
import { TablePanel } from "../../parts/Table";
import { fieldsOf, labelOf, valueOf, type Change } from "./filters";

const FEW = 3;

/** Changes, newest first, with old and new values side by side. */
export function ChangeRows({ of }: { readonly of: readonly Change[] }) {
  return (
    <TablePanel label="Past changes" columns={["When", "Actor", "Kind", "Subject", "Fields"]}>
      {of.map((change) => (
        <tr key={change.number}>
          <td className="nowrap">
            {moment(change.at)}
            <div className="quiet small">event {change.number}</div>
          </td>
          <td>
            {change.actor}
            {change.api_key === null ? null : <div className="small">via key {change.api_key}</div>}
            <div className="quiet small nowrap">{sourceOf(change)}</div>
          </td>
          <td className="nowrap">{words(change.kind)}</td>
          <td className="nowrap">
            <Subject of={change} />
          </td>
          <td>
            <Fields of={fieldsOf(change)} />
          </td>
        </tr>
      ))}
    </TablePanel>
  );
}

/** The request or the scheduling pass that caused a change. */
function sourceOf({ request_id: request, pass_number: pass }: Change): string {
  return pass === null ? (request ?? "") : `pass ${pass}`;
}

function Subject({ of: { kind, entity_id: id } }: { readonly of: Change }) {
  return kind.startsWith("session.") ? (
    <Link href={`/sessions/${id}`}>
      <code>{id}</code>
    </Link>
  ) : (
    <code>{id}</code>
  );
}

function Fields({ of }: { readonly of: Change["fields"] }) {
  if (of.length <= FEW) return <Listed of={of} />;
  return (
    <details>
      <summary>{of.length} fields</summary>
      <Listed of={of} />
    </details>
  );
}

function Listed({ of }: { readonly of: Change["fields"] }) {
  return (
    <dl className="difference changed">
      {of.map(({ name, before, after }) => (
        <Fragment key={name}>
          <dt>{labelOf(name)}</dt>
          <dd>
            {before === null || before === "null" ? null : <del>{valueOf(name, before)}</del>}{" "}
            <ins>{valueOf(name, after)}</ins>
          </dd>
        </Fragment>
      ))}
    </dl>
  );
}
