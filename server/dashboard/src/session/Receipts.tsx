import { Link } from "wouter";
import { duration, moment } from "../format/times";
import { words } from "../format/words";
import type { Session } from "./loading";
import { tailOf } from "./standing";

/** What was done to a session: why it failed, for whom it made room, and what it lost. */
export function Receipts({ session }: { readonly session: Session }) {
  const { failure, preemption } = session;
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
      {preemption ? (
        <p className="note warn">
          Asked to make room at {moment(preemption.at)} for {preemption.by_user} ({preemption.cause}
          {preemption.by_session ? (
            <>
              , <Link href={`/sessions/${preemption.by_session}`}>{tailOf(preemption.by_session)}</Link>
            </>
          ) : null}
          ), with time until {moment(preemption.until)}.
          {preemption.lost_gpu_seconds === null
            ? ""
            : ` That attempt had used ${duration(preemption.lost_gpu_seconds * 1000)} of a device.`}{" "}
          {session.preemptions > 1 ? `It has made room ${session.preemptions} times.` : ""}
        </p>
      ) : null}
    </>
  );
}
