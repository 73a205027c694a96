import { Button } from "react-aria-components";
import { Link } from "wouter";
import { useIdentity } from "../identity/me";
import { mayChange, mayRelease, maySubmit, prioritiesOf } from "../identity/rights";
import { useObservable } from "../api/observable";
import { CopyButton } from "../parts/CopyButton";
import { showNotice } from "../parts/notices";
import { Pick } from "../parts/Pick";
import { setWatched, settings } from "../shell/notifications";
import { Status } from "../parts/Status";
import { giveBack, hold, release, retry, setPriority, type Priority } from "./actions";
import { CancelButton } from "./CancelButton";
import type { Session } from "./loading";
import { MoreTime } from "./MoreTime";
import { ending, isEnded, isInteractive, isWaiting, nameOf, stateOf } from "./standing";
import { formOf } from "../submit/again";
import { CodeButtons } from "../submit/CodeDialogue";
import { requestOf } from "../submit/form";

const AS_FILE = ["file"] as const;

interface Props {
  readonly session: Session;
  readonly refresh: () => void;
}

/** Name, state and owner of a session, with its actions. */
export function Heading({ session, refresh }: Props) {
  const act = (deed: Promise<boolean>) => void deed.then(refresh);
  const me = useIdentity();
  const isMine = mayChange(me, session);
  const isWatched = useObservable(settings).watched.includes(session.id);
  const watch = async () => {
    const fault = await setWatched(session.id, !isWatched);
    const done = isWatched ? "No notification then." : "This browser tells you when it starts and ends.";
    showNotice(fault === null ? { tone: "good", text: done } : { tone: "bad", text: fault });
  };
  const waits = isWaiting(session.state);
  return (
    <header className="stack">
      <div className="row">
        <h1>{nameOf(session)}</h1>
        <Status state={stateOf(session)} />
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
            <>
              {session.state === "running" && session.time_limit !== null && !session.tasks ? (
                <MoreTime id={session.id} onDone={refresh} />
              ) : null}
              {session.holds_devices && isInteractive(session) ? (
                <Button className="button danger" onPress={() => act(giveBack(session.id))}>
                  Give back
                </Button>
              ) : (
                <CancelButton session={session} onDone={refresh} />
              )}
            </>
          )}
          {maySubmit(me) && !session.hidden.includes("command") ? (
            <Link className="button" href={`/submit?from=${session.id}`}>
              Submit again …
            </Link>
          ) : null}
          {isMine && !session.hidden.includes("command") ? (
            <CodeButtons
              request={requestOf(formOf(session, new Set(session.booking === null ? [] : [session.booking])))}
              forms={AS_FILE}
            />
          ) : null}
        </span>
      </div>
      <div className="row">
        <code className="quiet">{session.id}</code>
        <CopyButton text={session.id} what="The id" />
        {isEnded(session.state) ? null : (
          <Button className="button plain" onPress={() => void watch()}>
            {isWatched ? "Do not notify me" : "Notify me"}
          </Button>
        )}
      </div>
    </header>
  );
}
