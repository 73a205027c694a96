import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { expectedStart } from "../queue/start";
import { Attempts } from "./Attempts";
import type { Session } from "./loading";
import { attemptsOf, stepsOf, type Course } from "./steps";

interface Props {
  readonly session: Session;
  readonly course: Course;
}

/** What it went through, try by try, and what is reckoned of the rest. */
export function Timeline({ session, course }: Props) {
  const now = useNow();
  return (
    <section className="panel stack" aria-label="Timeline">
      <h2>Timeline</h2>
      <Attempts attempts={attemptsOf(stepsOf(session, course.steps), now)} now={now} />
      {course.isCut ? <p className="quiet small">There were steps before these.</p> : null}
      <dl className="facts">
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
