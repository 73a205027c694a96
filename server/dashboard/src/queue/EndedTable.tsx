import { Button } from "react-aria-components";
import { duration, moment } from "../format/times";
import { useIdentity } from "../identity/me";
import { mayChange } from "../identity/rights";
import { Status } from "../parts/Status";
import { ACTIONS, figure, TablePanel } from "../parts/Table";
import { retry } from "../session/actions";
import { ending, nameOf } from "../session/standing";
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

/** Ended sessions, newest first. */
export function EndedTable({ entries, selection, refresh }: Props) {
  const me = useIdentity();
  const nodes = useNodes();
  return (
    <TablePanel
      label="Ended sessions"
      className="queue"
      columns={[
        useSelectColumn(entries, selection),
        "Session",
        ...gpuColumns(true),
        "State",
        figure("Exit code"),
        figure("Waited"),
        figure("Ran"),
        figure("Ended"),
        ACTIONS,
      ]}
    >
      {entries.map(({ session }) => (
        <tr key={session.id}>
          <SelectCell session={session} selection={selection} />
          <td>
            <SessionCell session={session} />
          </td>
          <GpuCells session={session} nodes={nodes} isEnded />
          <td>
            <Status state={session.state} /> <span className="small">{ending(session)}</span>
            {session.holds_devices ? <div className="warn small">its devices are not free yet</div> : null}
          </td>
          <td className="figure" data-label="exit code">
            {session.exit_code ?? "—"}
          </td>
          <td className="figure" data-label="waited">
            {between(session.queued_at, session.started_at)}
          </td>
          <td className="figure" data-label="ran">
            {between(session.started_at, session.ended_at)}
          </td>
          <td className="figure" data-label="ended">
            {session.ended_at ? moment(session.ended_at) : "—"}
          </td>
          <td className="nowrap">
            {mayChange(me, session) ? (
              <Button
                className="button plain"
                aria-label={`Run again: ${nameOf(session)}`}
                onPress={() => void retry(session.id).then(refresh)}
              >
                Run again
              </Button>
            ) : null}
          </td>
        </tr>
      ))}
    </TablePanel>
  );
}

function between(from: string | null, to: string | null): string {
  return from && to ? duration(Date.parse(to) - Date.parse(from)) : "—";
}
