import { Link } from "wouter";
import { openAlerts } from "../alerts/open";
import { useObservable } from "../api/observable";
import { useNow } from "../format/clock";
import { duration } from "../format/times";
import type { Node } from "./nodes";
import { problemsOf, type Owner } from "./problems";

const SHOWN = 4;
const OWNERS_SHOWN = 5;

/** The problems, worst first. */
export function Problems({ nodes }: { readonly nodes: readonly Node[] }) {
  const lines = problemsOf(nodes, useObservable(openAlerts));
  const now = useNow();
  return (
    <section className="panel brief whole" aria-label="Problems">
      <h2>Problems</h2>
      {lines.length === 0 ? <p className="quiet">None.</p> : null}
      <ul>
        {lines.slice(0, SHOWN).map(({ key, text, owners, tone, since }) => (
          <li key={key} className={`wrong-${tone}`}>
            {text} <Owners owners={owners} />{" "}
            {since ? <span className="quiet nowrap">for {duration(now - Date.parse(since))}</span> : null}
          </li>
        ))}
      </ul>
      {lines.length > SHOWN ? <p className="quiet">and {lines.length - SHOWN} more</p> : null}
    </section>
  );
}

/** Users with links to their running sessions: `anna 5, ben 6`. */
function Owners({ owners }: { readonly owners: readonly Owner[] }) {
  const shown = owners.slice(0, OWNERS_SHOWN);
  return (
    <>
      {shown.map(({ name, count }, index) => (
        <span key={name} className="nowrap">
          <Link href={`/sessions?state=running&owner=${encodeURIComponent(name)}`}>{name}</Link> {count}
          {index < shown.length - 1 ? ", " : ""}
        </span>
      ))}
      {owners.length > shown.length ? ` and ${owners.length - shown.length} more` : ""}
    </>
  );
}
