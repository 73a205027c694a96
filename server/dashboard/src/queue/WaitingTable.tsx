import { memo } from "react";
import { Button } from "react-aria-components";
import { useNow } from "../format/clock";
import { duration } from "../format/times";
import { useIdentity } from "../identity/me";
import { mayChange, mayRelease, prioritiesOf } from "../identity/rights";
import { Pick } from "../parts/Pick";
import { Status } from "../parts/Status";
import { ACTIONS, figure, TablePanel } from "../parts/Table";
import { hold, release, setPriority, type Priority } from "../session/actions";
import { CancelButton } from "../session/CancelButton";
import { asked, nameOf } from "../session/standing";
import { Because } from "./Because";
import type { Entry } from "./loading";
import { SessionCell } from "./SessionCell";
import { expectedStart } from "./start";

interface Props {
  readonly entries: readonly Entry[];
  readonly refresh: () => void;
}

/** Waiting sessions, in the order of scheduling. */
export function WaitingTable({ entries, refresh }: Props) {
  return (
    <TablePanel
      label="Waiting sessions"
      className="queue"
      columns={[
        figure("#"),
        "Session",
        "Request",
        "Priority",
        "Reason",
        figure("Waited"),
        figure("Starts by", "Latest start"),
        ACTIONS,
      ]}
    >
      {entries.map((entry) => (
        <WaitingRow key={entry.session.id} entry={entry} refresh={refresh} />
      ))}
    </TablePanel>
  );
}

const WaitingRow = memo(function WaitingRow({
  entry,
  refresh,
}: {
  readonly entry: Entry;
  readonly refresh: () => void;
}) {
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
      <td className="figure">{position ?? "–"}</td>
      <td>
        <SessionCell session={session} />
        {isHeld ? <Status state="held" /> : null}
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
});

function Times({ entry: { session } }: { readonly entry: Entry }) {
  const now = useNow();
  return (
    <>
      <td className="figure" data-label="waited">
        {duration(now - Date.parse(session.queued_at))}
      </td>
      <td className="figure" data-label="starts by">
        {expectedStart(session, now)}
      </td>
    </>
  );
}
