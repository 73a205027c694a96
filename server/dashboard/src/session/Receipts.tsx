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

/** Notes about a session: its failure, its preemptions and what they cost. */
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
        <p className="note warn">It has ended; its devices are free when its last process has ended.</p>
      ) : null}
      {session.held_by ? <p className="note">Held by {session.held_by}, until it is released.</p> : null}
      {session.fallback_level ? (
        <p className="note">It now uses its fallback request number {session.fallback_level}.</p>
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
        <Preemption receipt={newest} /> {count > 1 ? `It was preempted ${count} times.` : ""}
      </p>
      {earlier.length ? (
        <details>
          <summary>{earlier.length === 1 ? "1 earlier preemption" : `${earlier.length} earlier preemptions`}</summary>
          <ol className="receipts" aria-label="Earlier preemptions">
            {earlier.map((receipt) => (
              <li key={receipt.at}>
                <Preemption receipt={receipt} />
              </li>
            ))}
          </ol>
        </details>
      ) : null}
    </div>
  );
}

function Preemption({ receipt }: { readonly receipt: Receipt }) {
  return (
    <>
      Preempted at {moment(receipt.at)} for {receipt.by_user} ({receipt.cause}
      {receipt.by_session ? (
        <>
          , <Link href={`/sessions/${receipt.by_session}`}>{tailOf(receipt.by_session)}</Link>
        </>
      ) : null}
      ), with a grace period until {moment(receipt.until)}.
      {receipt.lost_gpu_seconds === null
        ? ""
        : ` That attempt had used ${duration(receipt.lost_gpu_seconds * 1000)} of GPU time.`}
    </>
  );
}
