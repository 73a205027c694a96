import { useNowInView } from "../format/clock";
import { duration } from "../format/times";
import { useIdentity } from "../identity/me";
import { mayChange } from "../identity/rights";
import { useInView } from "../parts/inView";
import { Status } from "../parts/Status";
import { ACTIONS, figure, TablePanel } from "../parts/Table";
import { CancelButton } from "../session/CancelButton";
import { endOf } from "../session/ends";
import { GpuCells, gpuColumns, useNodes } from "./GpuCells";
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
  const me = useIdentity();
  const nodes = useNodes();
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
        figure("Ends"),
        ACTIONS,
      ]}
    >
      {entries.map(({ session }) => (
        <tr key={session.id}>
          <SelectCell session={session} selection={selection} />
          <td>
            <SessionCell session={session} />
          </td>
          <GpuCells session={session} nodes={nodes} />
          <td>
            <Status state={session.state} />
            {session.attempt > 1 ? <span className="quiet small"> attempt {session.attempt}</span> : null}
          </td>
          <Times session={session} />
          <td className="nowrap">
            {mayChange(me, session) ? <CancelButton session={session} onDone={refresh} isPlain /> : null}
          </td>
        </tr>
      ))}
    </TablePanel>
  );
}

function Times({ session }: Pick<Entry, "session">) {
  const [ref, isInView] = useInView();
  const now = useNowInView(isInView);
  const { text, from } = endOf(session, now);
  return (
    <>
      <td className="figure" data-label="running for" ref={ref}>
        {session.started_at ? duration(now - Date.parse(session.started_at)) : "—"}
      </td>
      <td className="figure" data-label="ends" title={from}>
        {text}
      </td>
    </>
  );
}
