import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { useIdentity } from "../identity/me";
import { mayChange } from "../identity/rights";
import { Status } from "../parts/Status";
import { ACTIONS, figure, TablePanel } from "../parts/Table";
import { CancelButton } from "../session/CancelButton";
import { GpuCells, gpuColumns } from "./GpuCells";
import type { Entry } from "./loading";
import { SelectCell, useSelectColumn } from "./SelectCell";
import type { Selection } from "./selection";
import { SessionCell } from "./SessionCell";

interface Props {
  readonly entries: readonly Entry[];
  readonly selection: Selection;
  readonly refresh: () => void;
}

/** Sessions that run or are starting. */
export function ActiveTable({ entries, selection, refresh }: Props) {
  const now = useNow();
  const me = useIdentity();
  return (
    <TablePanel
      label="Running sessions"
      className="queue"
      columns={[
        useSelectColumn(entries, selection),
        "Session",
        ...gpuColumns(),
        "State",
        figure("Running for"),
        figure("Ends by"),
        ACTIONS,
      ]}
    >
      {entries.map(({ session }) => (
        <tr key={session.id}>
          <SelectCell session={session} selection={selection} />
          <td>
            <SessionCell session={session} />
          </td>
          <GpuCells session={session} />
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
