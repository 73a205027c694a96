import { openAlerts } from "../alerts/open";
import { useObservable } from "../api/observable";
import { useNow } from "../format/clock";
import { duration } from "../format/times";
import type { Node } from "./nodes";
import { problemsOf } from "./problems";

const SHOWN = 4;

/** The problems, worst first. */
export function Problems({ nodes }: { readonly nodes: readonly Node[] }) {
  const lines = problemsOf(nodes, useObservable(openAlerts));
  const now = useNow();
  return (
    <section className="panel brief whole" aria-label="Problems">
      <h2>Problems</h2>
      {lines.length === 0 ? <p className="quiet">None.</p> : null}
      <ul>
        {lines.slice(0, SHOWN).map(({ key, text, tone, since }) => (
          <li key={key} className={`wrong-${tone}`}>
            {text} {since ? <span className="quiet nowrap">for {duration(now - Date.parse(since))}</span> : null}
          </li>
        ))}
      </ul>
      {lines.length > SHOWN ? <p className="quiet">and {lines.length - SHOWN} more</p> : null}
    </section>
  );
}
