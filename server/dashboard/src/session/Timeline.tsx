import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { toldSentence } from "../queue/forecast";
import { expectedStart } from "../queue/start";
import { Attempts } from "./Attempts";
import { endOf } from "./ends";
import type { Session } from "./loading";
import { attemptsOf, stepsOf, type Course } from "./steps";

interface Props {
  readonly session: Session;
  readonly course: Course;
}

/** The steps of a session, attempt by attempt, and its expected start and end. */
export function Timeline({ session, course }: Props) {
  const now = useNow();
  const told = toldSentence(session.forecast, now);
  const end = endOf(session, now);
  return (
    <section className="panel stack" aria-label="Timeline">
      <h2>Timeline</h2>
      <Attempts attempts={attemptsOf(stepsOf(session, course.steps), now)} now={now} />
      {course.isCut ? <p className="quiet small">Earlier steps are no longer kept.</p> : null}
      <dl className="facts">
        {session.expected_start && !session.scheduled_at ? (
          <div>
            <dt>latest start</dt>
            <dd>
              {moment(session.expected_start, now)} ({expectedStart(session, now)})
            </dd>
          </div>
        ) : null}
        {told ? (
          <div>
            <dt>forecast at submission</dt>
            <dd>starts {told}</dd>
          </div>
        ) : null}
        {end.from ? (
          <div>
            <dt>expected end</dt>
            <dd>
              {end.text} <span className="quiet small">{end.from}</span>
            </dd>
          </div>
        ) : null}
        {session.order_estimate && !session.scheduled_at ? (
          <div>
            <dt>expected run time</dt>
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
