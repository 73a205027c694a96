import { duration, moment } from "../format/times";
import { Status } from "../parts/Status";
import { noteOf, type Attempt } from "./steps";

interface Props {
  readonly attempts: readonly Attempt[];
  readonly now: number;
}

/** The newest attempt state by state; earlier ones are folded. */
export function Attempts({ attempts: [newest, ...earlier], now }: Props) {
  if (!newest) return null;
  return (
    <>
      {earlier.length || newest.number > 1 ? <h3>{titleOf(newest)}</h3> : null}
      <Stages attempt={newest} now={now} />
      {earlier.map((attempt) => (
        <details key={attempt.number}>
          <summary>
            {titleOf(attempt)} <span className="quiet small">{summaryOf(attempt)}</span>
          </summary>
          <Stages attempt={attempt} now={now} />
        </details>
      ))}
    </>
  );
}

function Stages({ attempt: { number, stages }, now }: { readonly attempt: Attempt; readonly now: number }) {
  return (
    <>
      <div className="phases" aria-hidden="true">
        {stages.map(({ step, ms }) =>
          ms === null ? null : (
            <span key={step.number} className={`phase-${step.state}`} style={{ flexGrow: Math.max(1, ms) }} />
          ),
        )}
      </div>
      <ol className="stages" aria-label={`States of attempt ${number}`}>
        {stages.map(({ step, ms }) => (
          <li key={step.number}>
            <time dateTime={step.at}>{moment(step.at, now)}</time>
            <span>
              <i className={`swatch phase-${step.state}`} aria-hidden="true" /> <Status state={step.state} />
            </span>
            <b>{ms === null ? "" : duration(ms)}</b>
            <span className="quiet small">{noteOf(step)}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function titleOf({ number, isTried }: Attempt): string {
  return isTried ? `Attempt ${number}` : `Waiting for attempt ${number}`;
}

function summaryOf({ stages }: Attempt): string {
  const runs = stages.filter(({ step }) => step.state === "running" || step.state === "preempting");
  const ran = runs.reduce((sum, { ms }) => sum + (ms ?? 0), 0);
  return `${runs.length ? `ran ${duration(ran)}, ` : ""}${stages.at(-1)?.step.state ?? ""}`;
}
