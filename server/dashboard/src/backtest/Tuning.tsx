import { useState } from "react";
import { serverNow } from "../api/time";
import { Button } from "react-aria-components";
import { Check } from "../parts/Check";
import { Text } from "../parts/Text";
import { Figures } from "./Comparison";
import { sinceOf, spanWrong, waits, type Backtest } from "./figures";
import { apply, tune } from "./running";
import { said } from "./TryLastWeek";

interface BeginProps {
  readonly onStarted: (id: string) => void;
  readonly onWrong: (message: string) => void;
}

/** Starts a search of better weights. */
export function BeginTuning({ onStarted, onWrong }: BeginProps) {
  const [since, setSince] = useState("28d");
  const [isAuto, setIsAuto] = useState(false);
  const sinceWrong = spanWrong(since);
  const begin = () =>
    said(onWrong, async () => {
      onWrong("");
      const outcome = await tune({ since: sinceOf(since, serverNow()), apply: isAuto ? "auto" : "manual" });
      if ("message" in outcome) onWrong(outcome.message);
      else onStarted(outcome.id);
    });
  return (
    <section className="stack" aria-label="Tune the weights">
      <p>
        Tuning searches better weights for the order on the first two thirds of the time, and checks them on the later
        sessions, which the search has not seen.
      </p>
      <div className="row at-end">
        <Text label="Tune on the last" value={since} onChange={setSince} wrong={sinceWrong} />
        <Check
          text="Apply a better policy; take it back if sessions start later than forecast for 6 hours"
          isOn={isAuto}
          onChange={setIsAuto}
        />
        <Button className="button" isDisabled={sinceWrong !== undefined} onPress={() => void begin()}>
          Tune
        </Button>
      </div>
    </section>
  );
}

interface ProposalProps {
  readonly backtest: Backtest;
  readonly tuning: NonNullable<Backtest["tuning"]>;
  readonly onApplied: (version: number) => void;
  readonly onWrong: (message: string) => void;
}

/** The result of a tuning: evidence on later sessions, changes, and users that wait longer. */
export function Proposal({ backtest, tuning, onApplied, onWrong }: ProposalProps) {
  const press = () =>
    said(onWrong, async () => {
      const outcome = await apply(backtest.id);
      if ("message" in outcome) onWrong(outcome.message);
      else if (outcome.applied_version !== null) onApplied(outcome.applied_version);
    });
  return (
    <section className="stack" aria-label="Proposal">
      <p className={`note ${tuning.is_better ? "good" : "warn"}`}>{tuning.verdict}</p>
      <p>On later sessions that the search has not seen, after {tuning.tries} policies were tried:</p>
      <Figures report={{ rows: tuning.unseen }} />
      {tuning.notes.map((note) => (
        <p key={note} className="note">
          {note}
        </p>
      ))}
      <ul>
        {tuning.changes.map((one) => (
          <li key={one.name}>
            {one.name}: {one.before} → {one.after}
          </li>
        ))}
      </ul>
      {tuning.losers.length ? <h3>Users who wait longer</h3> : null}
      <ul>
        {tuning.losers.map((one) => (
          <li key={one.name}>
            {one.name}: mean wait {waits(one.wait_before, one.wait)}, {one.sessions} sessions
          </li>
        ))}
      </ul>
      {backtest.applied_version === null ? (
        <Button className="button main" isDisabled={!tuning.is_better} onPress={() => void press()}>
          Apply to version {tuning.base_version} of the policy
        </Button>
      ) : (
        <p>
          Applied as version {backtest.applied_version} of the policy
          {backtest.superseded === null ? "" : `; ${backtest.superseded}`}.
        </p>
      )}
    </section>
  );
}
