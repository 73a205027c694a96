import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { expectedStart } from "../queue/start";
import type { Session } from "./loading";
import { phasesOf } from "./phases";

/** Where the time went, as a bar and as moments. */
export function Timeline({ session }: { readonly session: Session }) {
  const now = useNow();
  const phases = phasesOf(session, now);
  const moments = [
    ["submitted", session.queued_at],
    ["devices granted", session.scheduled_at],
    ["all kernels ran", session.started_at],
    [session.state, session.ended_at],
  ] as const;
  return (
    <section className="panel stack" aria-label="Timeline">
      <h2>Timeline</h2>
      <div className="phases" aria-hidden="true">
        {phases.map((phase) => (
          <span key={phase.name} className={phase.name.replace(" ", "-")} style={{ flexGrow: Math.max(1, phase.ms) }} />
        ))}
      </div>
      <ul className="row wide">
        {phases.map((phase) => (
          <li key={phase.name}>
            <i className={`swatch ${phase.name.replace(" ", "-")}`} /> {phase.name} <b>{duration(phase.ms)}</b>
          </li>
        ))}
      </ul>
      <dl className="facts">
        {moments.map(([name, at]) =>
          at ? (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{moment(at, now)}</dd>
            </div>
          ) : null,
        )}
        {session.expected_start && !session.scheduled_at ? (
          <div>
            <dt>starts at the latest</dt>
            <dd>
              {moment(session.expected_start, now)} ({expectedStart(session, now)})
            </dd>
          </div>
        ) : null}
        {session.reserve_until ? (
          <div>
            <dt>reckoned to end by</dt>
            <dd>{moment(session.reserve_until, now)}</dd>
          </div>
        ) : null}
        {session.order_estimate ? (
          <div>
            <dt>expected to run</dt>
            <dd>
              {duration(session.order_estimate.seconds * 1000)}{" "}
              <span className="quiet small">{session.order_estimate.explanation}</span>
            </dd>
          </div>
        ) : null}
      </dl>
    </section>
  );
}
