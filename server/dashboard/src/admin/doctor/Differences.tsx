import { moment } from "../../format/times";
import { words } from "../../format/words";
import type { DoctorQuery } from "../../generated/graphql";
import { TablePanel } from "../../parts/Table";

/** What does not agree, and what is done about it. */
export function Differences({ of }: { readonly of: DoctorQuery["doctor"]["differences"] }) {
  return (
    <TablePanel label="Differences" columns={["What", "Agent", "Seen", "Since", "What the server does"]}>
      {of.map((one) => (
        <tr key={`${one.kind} ${one.agent_id} ${one.subject}`}>
          <td>
            {words(one.kind)}
            <div className="quiet small">{one.subject}</div>
          </td>
          <td>{one.agent_id}</td>
          <td>{one.evidence}</td>
          <td>{one.since ? moment(one.since) : "just now"}</td>
          <td>{one.repair ?? "—"}</td>
        </tr>
      ))}
    </TablePanel>
  );
}
