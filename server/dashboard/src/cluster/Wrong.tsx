import { openAlerts } from "../alerts/open";
import { useObservable } from "../api/observable";
import { useNow } from "../format/clock";
import { duration } from "../format/times";
import type { Node } from "./nodes";
import { wrongsOf } from "./wrongs";

const SHOWN = 4;

/** What is wrong, worst first, in one short list. */
export function Wrong({ nodes }: { readonly nodes: readonly Node[] }) {
  const lines = wrongsOf(nodes, useObservable(openAlerts));
  const now = useNow();
  return (
    <section className="panel brief whole" aria-label="What is wrong">
      <h2>Wrong</h2>
      {lines.length === 0 ? <p className="quiet">Nothing that is known of.</p> : null}
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
