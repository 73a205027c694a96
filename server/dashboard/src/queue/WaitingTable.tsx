import { memo } from "react";
import { Button } from "react-aria-components";
import { useNowInView } from "../format/clock";
import { duration } from "../format/times";
import { useIdentity } from "../identity/me";
import { mayChange, mayRelease, prioritiesOf } from "../identity/rights";
import { useInView } from "../parts/inView";
import { Pick } from "../parts/Pick";
import { Status } from "../parts/Status";
import { ACTIONS, figure, TablePanel } from "../parts/Table";
import { hold, release, setPriority, type Priority } from "../session/actions";
import { CancelButton } from "../session/CancelButton";
import { asked, nameOf } from "../session/standing";
import { Because } from "./Because";
import { likelyStart, startSentence } from "./forecast";
import type { Entry } from "./loading";
import { SelectCell, useSelectColumn } from "./SelectCell";
import type { Selection } from "./selection";
import { SessionCell } from "./SessionCell";
import { expectedStart } from "./start";

interface Props {
  readonly entries: readonly Entry[];
  readonly selection: Selection;
  readonly refresh: () => void;
}

/** Waiting sessions, in the order of scheduling. */
export function WaitingTable({ entries, selection, refresh }: Props) {
  return (
    <TablePanel
      label="Waiting sessions"
      className="queue"
      columns={[
        useSelectColumn(entries, selection),
        figure("#"),
        "Session",
        "Request",
        "Priority",
        "Reason",
        figure("Waited"),
        figure("Starts", "Likely start, by the forecast"),
        figure(
          "Starts by",
          "Latest start, if running sessions end by their limits, or, without one, as similar ones did",
        ),
        ACTIONS,
      ]}
    >
      {entries.map((entry) => (
        <WaitingRow key={entry.session.id} entry={entry} selection={selection} refresh={refresh} />
      ))}
    </TablePanel>
  );
}

interface RowProps {
  readonly entry: Entry;
  readonly selection: Selection;
  readonly refresh: () => void;
}

const WaitingRow = memo(
  function WaitingRow({ entry, selection, refresh }: RowProps) {
    const { session, position } = entry;
    const act = async (deed: Promise<boolean>) => {
      await deed;
      refresh();
    };
    const me = useIdentity();
    const isMine = mayChange(me, session);
    const isHeld = session.state === "held";
    return (
      <tr>
        <SelectCell session={session} selection={selection} />
        <td className="figure">{position ?? "–"}</td>
        <td>
          <SessionCell session={session} />
          {isHeld && session.waits?.reason !== "held" ? <Status state="held" /> : null}
        </td>
        <td className="asks">{asked(session)}</td>
        <td>
          {isMine ? (
            <Pick
              label={`Priority of ${nameOf(session)}`}
              value={session.priority as Priority}
              options={prioritiesOf(me, session.priority)}
              onChange={(priority) => void act(setPriority(session.id, priority, session.version))}
            />
          ) : (
            session.priority
          )}
        </td>
        <td>
          <Because session={session} />
        </td>
        <Times entry={entry} />
        <td className="nowrap">
          {(isHeld ? mayRelease(me, session) : isMine) ? (
            <Button
              className="button plain"
              aria-label={`${isHeld ? "Release" : "Hold"} ${nameOf(session)}`}
              onPress={() => void act(isHeld ? release(session.id) : hold(session.id))}
            >
              {isHeld ? "Release" : "Hold"}
            </Button>
          ) : null}
          {isMine ? <CancelButton session={session} onDone={refresh} isPlain /> : null}
        </td>
      </tr>
    );
  },
  // Selecting other rows changes nothing here.
  (old, next) =>
    old.entry === next.entry &&
    old.refresh === next.refresh &&
    old.selection.ids.has(old.entry.session.id) === next.selection.ids.has(next.entry.session.id),
);

function Times({ entry: { session } }: { readonly entry: Entry }) {
  const [ref, isInView] = useInView();
  const now = useNowInView(isInView);
  return (
    <>
      <td className="figure" data-label="waited" ref={ref}>
        {duration(now - Date.parse(session.queued_at))}
      </td>
      <td className="figure" data-label="starts" title={startSentence(session.forecast, now)}>
        {likelyStart(session.forecast, now)}
      </td>
      <td className="figure" data-label="starts by">
        {expectedStart(session, now)}
      </td>
    </>
  );
}
