import { Button } from "react-aria-components";
import { Link } from "wouter";
import { useIdentity } from "../identity/me";
import { mayChange, mayRelease, maySubmit, prioritiesOf } from "../identity/rights";
import { Pick } from "../parts/Pick";
import { Status } from "../parts/Status";
import { hold, release, retry, setPriority, type Priority } from "./actions";
import { CancelButton } from "./CancelButton";
import type { Session } from "./loading";
import { ending, isEnded, isWaiting, nameOf } from "./standing";

interface Props {
  readonly session: Session;
  readonly refresh: () => void;
}

/** Name, state and owner of a session, with its actions. */
export function Heading({ session, refresh }: Props) {
  const act = (deed: Promise<boolean>) => void deed.then(refresh);
  const me = useIdentity();
  const isMine = mayChange(me, session);
  const waits = isWaiting(session.state);
  return (
    <header className="stack">
      <div className="row">
        <h1>{nameOf(session)}</h1>
        <Status state={session.state} />
        <span className="small">{isEnded(session.state) && !session.failure ? ending(session) : ""}</span>
        <span className="quiet">
          {session.owner}
          {session.queue_position ? `, position ${session.queue_position} in the queue` : ""}
        </span>
        <span className="end row">
          {waits && isMine ? (
            <>
              <Pick
                label="Priority"
                value={session.priority as Priority}
                options={prioritiesOf(me, session.priority)}
                onChange={(priority) => act(setPriority(session.id, priority, session.version))}
              />
              {session.state !== "held" || mayRelease(me, session) ? (
                <Button
                  className="button"
                  onPress={() => act(session.state === "held" ? release(session.id) : hold(session.id))}
                >
                  {session.state === "held" ? "Release" : "Hold"}
                </Button>
              ) : null}
            </>
          ) : null}
          {!isMine ? null : isEnded(session.state) ? (
            <Button className="button" onPress={() => act(retry(session.id))}>
              Run again
            </Button>
          ) : (
            <CancelButton session={session} onDone={refresh} />
          )}
          {maySubmit(me) ? (
            <Link className="button" href={`/submit?from=${session.id}`}>
              Submit again …
            </Link>
          ) : null}
        </span>
      </div>
      <code className="quiet">{session.id}</code>
    </header>
  );
}
