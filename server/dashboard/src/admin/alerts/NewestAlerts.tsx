import { ask } from "../../api/client";
import { useLive } from "../../api/live";
import { moment } from "../../format/times";
import { words } from "../../format/words";
import { NewestAlertsDocument } from "../../generated/graphql";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { TablePanel } from "../../parts/Table";
import { SeverityBadge } from "./SeverityBadge";

/** The newest alerts, closed ones included. */
export function NewestAlerts() {
  const live = useLive(async () => (await ask(NewestAlertsDocument, {})).alerts.edges, "newest-alerts", {
    everyMs: 5_000,
  });
  return (
    <section className="stack" aria-label="Newest alerts">
      <h2>Newest alerts</h2>
      <Faults of={live} />
      {live.data?.length === 0 ? (
        <Empty title="There have been no alerts">
          <p>An alert is opened when its rule holds, and closed when the rule no longer holds.</p>
        </Empty>
      ) : null}
      {live.data?.length ? (
        <TablePanel label="Alerts" columns={["Severity", "Rule", "Subject", "Message", "Opened", "Closed"]}>
          {live.data.map(({ node: alert }) => (
            <tr key={alert.id}>
              <td>
                <SeverityBadge of={alert.severity} />
              </td>
              <td className="nowrap">{words(alert.rule)}</td>
              <td>{alert.subject}</td>
              <td className="sentence">{alert.message}</td>
              <td className="nowrap">{moment(alert.opened_at)}</td>
              <td className="nowrap">{alert.closed_at ? moment(alert.closed_at) : <b>open</b>}</td>
            </tr>
          ))}
        </TablePanel>
      ) : null}
    </section>
  );
}
