import { ask } from "../api/client";
import { useLive } from "../api/live";
import { useNow } from "../format/clock";
import { WhatIfDocument, type WhatIfInput } from "../generated/graphql";
import { nameOf } from "../session/standing";
import { standingOf } from "../session/remedies";
import { againOf, sentencesOf } from "./effect";

const SHOWN = 5;

/** What a change would mean for the sessions that run and wait, before it is confirmed. */
export function EffectOf({ input }: { readonly input: WhatIfInput }) {
  const now = useNow();
  const live = useLive(async () => (await ask(WhatIfDocument, { input })).what_if, JSON.stringify(input));
  const effect = live.data;
  return (
    <section aria-label="Effect" aria-live="polite">
      <h3>Effect</h3>
      {!effect ? (
        <p className="quiet">{live.fault ? `The effect is unknown. ${live.fault.message}` : "Being computed …"}</p>
      ) : effect.__typename !== "WhatIf" ? (
        <p className="quiet">{"message" in effect ? effect.message : ""}</p>
      ) : (
        <>
          {sentencesOf(effect).map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
          <ul>
            {effect.restarts.slice(0, SHOWN).map((restart) => (
              <li key={restart.session.session_id} className="small">
                {nameOf({ id: restart.session.session_id, name: restart.session.name })} of {restart.session.owner}:{" "}
                {standingOf(restart.session, now)}; {againOf(restart, now)}
              </li>
            ))}
          </ul>
          {effect.restarts.length > SHOWN ? (
            <p className="quiet small">and {effect.restarts.length - SHOWN} more</p>
          ) : null}
        </>
      )}
    </section>
  );
}
