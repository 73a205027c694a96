import { useState, type ReactNode } from "react";
import { Button } from "react-aria-components";
import { useObservable } from "../api/observable";
import { Dialogue } from "../parts/Dialogue";
import { useIdentity } from "../identity/me";
import { mayChange, mayRelease, prioritiesOf } from "../identity/rights";
import { cancelAll, holdAll, prioritise, progress, releaseAll, retryAll, type Priority } from "../session/actions";
import { isEnded, isWaiting, nameOf } from "../session/standing";
import type { Row } from "./loading";
import type { Selection } from "./selection";

interface Props {
  /** The rows of the table. */
  readonly rows: readonly Row[];
  readonly selection: Selection;
  readonly refresh: () => void;
  /** A note on sessions that are not loaded and so cannot be selected; null if all are loaded. */
  readonly unloaded: ReactNode;
}

const NAMES_SHOWN = 8;

/** Actions on all selected sessions. */
export function BulkBar({ rows: shown, selection, refresh, unloaded }: Props) {
  const me = useIdentity();
  const [isAsking, setAsking] = useState(false);
  const underway = useObservable(progress);
  const isBusy = underway !== null;
  const rows = shown.filter(({ id }) => selection.ids.has(id));
  if (rows.length === 0) return null;
  const isAll = rows.length === shown.filter((row) => mayChange(me, row)).length;
  const act = async (deed: () => Promise<boolean>) => {
    if (await deed()) selection.clear();
    // The pressed button was disabled, and is gone with the selection: the keyboard goes on from the content.
    document.getElementById("content")?.focus({ preventScroll: true });
    refresh();
  };
  const going = rows.filter(({ state }) => !isEnded(state));
  const queued = rows.filter(({ state }) => state === "queued");
  const held = rows.filter((row) => row.state === "held" && mayRelease(me, row));
  const waiting = rows.filter(({ state }) => isWaiting(state));
  const ended = rows.filter(({ state }) => isEnded(state));
  const button = (text: string, some: readonly Row[], deed: (rows: readonly Row[]) => Promise<boolean>) =>
    some.length ? (
      <Button className="button" isDisabled={isBusy} onPress={() => void act(() => deed(some))}>
        {text} {some.length}
      </Button>
    ) : null;
  return (
    <div className="bulk row note" role="group" aria-label="Selected sessions">
      <b>{rows.length} selected</b>
      {underway === null ? null : <span>{underway}</span>}
      {isAll && unloaded ? <span role="status">{unloaded}</span> : null}
      {button("Hold", queued, holdAll)}
      {button("Release", held, releaseAll)}
      {button("Run again:", ended, retryAll)}
      {waiting.length ? (
        <select
          className="pick"
          aria-label="Priority of the selected sessions"
          value=""
          disabled={isBusy}
          onChange={(event) => void act(() => prioritise(waiting, event.target.value as Priority))}
        >
          <option value="">Priority …</option>
          {prioritiesOf(me, "normal").map((priority) => (
            <option key={priority}>{priority}</option>
          ))}
        </select>
      ) : null}
      {going.length ? (
        <Button className="button danger" isDisabled={isBusy} onPress={() => setAsking(true)}>
          Cancel {going.length} …
        </Button>
      ) : null}
      <Button className="button plain end" onPress={selection.clear}>
        Select none
      </Button>
      <Dialogue
        title={`Cancel ${going.length === 1 ? "1 session" : `${going.length} sessions`}?`}
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        closing="Keep them"
        actions={
          <Button
            className="button danger"
            onPress={() => {
              setAsking(false);
              void act(() => cancelAll(going));
            }}
          >
            Cancel the sessions
          </Button>
        }
      >
        <p>
          {going.slice(0, NAMES_SHOWN).map(nameOf).join(", ")}
          {going.length > NAMES_SHOWN ? ` and ${going.length - NAMES_SHOWN} more` : ""}
        </p>
        <p>Waiting ones leave the queue. Processes get SIGTERM, and SIGKILL after the grace period.</p>
      </Dialogue>
    </div>
  );
}
