import { moment } from "../../format/times";
import { words } from "../../format/words";
import type { DoctorQuery } from "../../generated/graphql";
import { TablePanel } from "../../parts/Table";

/** Differences between store, agents and devices, and their repair. */
export function Differences({ of }: { readonly of: DoctorQuery["doctor"]["differences"] }) {
  return (
    <TablePanel label="Differences" columns={["Difference", "Agent", "Evidence", "Since", "Repair by the server"]}>
      {of.map((one) => (
        <tr key={`${one.kind} ${one.agent_id} ${one.subject}`}>
          <td>
            {words(one.kind)}
            <div className="quiet small">{one.subject}</div>
          </td>
          <td>{one.agent_id}</td>
          <td className="sentence">{one.evidence}</td>
          <td>{one.since ? moment(one.since) : "just now"}</td>
          <td>{one.repair ?? "—"}</td>
        </tr>
      ))}
    </TablePanel>
  );
}
