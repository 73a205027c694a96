import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { Status } from "../parts/Status";
import { DEEDS, figure, TablePanel } from "../parts/Table";
import { CancelButton } from "../session/CancelButton";
import { asked } from "../session/standing";
import type { Entry } from "./loading";
import { SessionCell } from "./SessionCell";

interface Props {
  readonly entries: readonly Entry[];
  readonly refresh: () => void;
}

/** What runs, or is on its way to. */
export function ActiveTable({ entries, refresh }: Props) {
  const now = useNow();
  return (
    <TablePanel
      label="What runs"
      className="queue"
      columns={["Session", "Asks for", "State", figure("Runs for"), figure("Ends by"), DEEDS]}
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
          <td className="figure" data-label="runs for">
            {session.started_at ? duration(now - Date.parse(session.started_at)) : "—"}
          </td>
          <td className="figure" data-label="ends by" title={session.order_estimate?.explanation}>
            {session.reserve_until ? moment(session.reserve_until, now) : "—"}
          </td>
          <td className="nowrap">
            <CancelButton session={session} onDone={refresh} isPlain />
          </td>
        </tr>
      ))}
    </TablePanel>
  );
}
