import { moment } from "../../format/times";
import type { DoctorQuery } from "../../generated/graphql";

/** What does not agree, and what is done about it. */
export function Differences({ of }: { readonly of: DoctorQuery["doctor"]["differences"] }) {
  return (
    <div className="panel scroll" tabIndex={0} role="region" aria-label="Differences">
      <table>
        <thead>
          <tr>
            <th>What</th>
            <th>Agent</th>
            <th>Seen</th>
            <th>Since</th>
            <th>What the server does</th>
          </tr>
        </thead>
        <tbody>
          {of.map((one) => (
            <tr key={`${one.kind} ${one.agent_id} ${one.subject}`}>
              <td>
                {one.kind.replaceAll("_", " ")}
                <div className="quiet small">{one.subject}</div>
              </td>
              <td>{one.agent_id}</td>
              <td>{one.evidence}</td>
              <td>{one.since ? moment(one.since) : "just now"}</td>
              <td>{one.repair ?? "—"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
