import { Link } from "wouter";
import { duration, moment } from "../format/times";
import { words } from "../format/words";
import type { Session } from "./loading";
import { tailOf } from "./standing";
import { receiptsOf, type Course, type Receipt } from "./steps";

interface Props {
  readonly session: Session;
  readonly course: Course;
}

/** What was done to a session: why it failed, for whom it made room each time, and what it lost. */
export function Receipts({ session, course }: Props) {
  const { failure } = session;
  return (
    <>
      {failure ? (
        <p className="note bad">
          <b>{words(failure.code)}</b>: {failure.message}
        </p>
      ) : null}
      {session.holds_devices && session.ended_at ? (
        <p className="note warn">It has ended; its devices are free when the last of its processes is gone.</p>
      ) : null}
      {session.held_by ? <p className="note">Held back by {session.held_by}, until it is released.</p> : null}
      {session.fallback_level ? (
        <p className="note">It has settled for its smaller request number {session.fallback_level}.</p>
      ) : null}
      <Preemptions receipts={receiptsOf(course.steps, session.preemption)} count={session.preemptions} />
    </>
  );
}

/** The newest in full, the rest folded. */
function Preemptions({ receipts, count }: { readonly receipts: readonly Receipt[]; readonly count: number }) {
  const [newest, ...earlier] = receipts;
  if (!newest) return null;
  return (
    <div className="note warn stack">
      <p>
        <Told receipt={newest} /> {count > 1 ? `It has made room ${count} times.` : ""}
      </p>
      {earlier.length ? (
        <details>
          <summary>{earlier.length === 1 ? "Once before" : `${earlier.length} times before`}</summary>
          <ol className="receipts" aria-label="Earlier preemptions">
            {earlier.map((receipt) => (
              <li key={receipt.at}>
                <Told receipt={receipt} />
              </li>
            ))}
          </ol>
        </details>
      ) : null}
    </div>
  );
}

function Told({ receipt }: { readonly receipt: Receipt }) {
  return (
    <>
      Asked to make room at {moment(receipt.at)} for {receipt.by_user} ({receipt.cause}
      {receipt.by_session ? (
        <>
          , <Link href={`/sessions/${receipt.by_session}`}>{tailOf(receipt.by_session)}</Link>
        </>
      ) : null}
      ), with time until {moment(receipt.until)}.
      {receipt.lost_gpu_seconds === null
        ? ""
        : ` That attempt had used ${duration(receipt.lost_gpu_seconds * 1000)} of a device.`}
    </>
  );
}
