import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { useIdentity } from "../identity/me";
import { mayChange } from "../identity/rights";
import { Status } from "../parts/Status";
import { ACTIONS, figure, TablePanel } from "../parts/Table";
import { CancelButton } from "../session/CancelButton";
import { asked } from "../session/standing";
import type { Entry } from "./loading";
import { SessionCell } from "./SessionCell";

interface Props {
  readonly entries: readonly Entry[];
  readonly refresh: () => void;
}

/** Sessions that run or are starting. */
export function ActiveTable({ entries, refresh }: Props) {
  const now = useNow();
  const me = useIdentity();
  return (
    <TablePanel
      label="Running sessions"
      className="queue"
      columns={["Session", "Request", "State", figure("Running for"), figure("Ends by"), ACTIONS]}
    >
      {entries.map(({ session }) => (
        <tr key={session.id}>
          <td>
            <SessionCell session={session} />
          </td>
          <td className="asks">{asked(session)}</td>
          <td>
            <Status state={session.state} />
            {session.attempt > 1 ? <span className="quiet small"> attempt {session.attempt}</span> : null}
          </td>
          <td className="figure" data-label="running for">
            {session.started_at ? duration(now - Date.parse(session.started_at)) : "—"}
          </td>
          <td className="figure" data-label="ends by" title={session.order_estimate?.explanation}>
            {session.reserve_until ? moment(session.reserve_until, now) : "—"}
          </td>
          <td className="nowrap">
            {mayChange(me, session) ? <CancelButton session={session} onDone={refresh} isPlain /> : null}
          </td>
        </tr>
      ))}
    </TablePanel>
  );
}
