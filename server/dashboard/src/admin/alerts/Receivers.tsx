import { Button } from "react-aria-components";
import { ask } from "../../api/client";
import { useLive } from "../../api/live";
import { words } from "../../format/words";
import { ReceiversDocument, type ReceiversQuery } from "../../generated/graphql";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { ACTIONS, TablePanel } from "../../parts/Table";
import { sendTest } from "./deeds";

type Receiver = ReceiversQuery["notice_receivers"][number];

/** The receivers in the server's settings; each can be tested. */
export function Receivers() {
  const live = useLive(async () => (await ask(ReceiversDocument, {})).notice_receivers, "receivers", {
    everyMs: 60_000,
  });
  return (
    <section className="stack" aria-label="Receivers">
      <h2>Receivers</h2>
      <Faults of={live} />
      {live.data?.length === 0 ? (
        <Empty title="There are no receivers">
          <p>Alerts are only shown here. Add receivers in the server's settings: webhooks, Slack, or mail.</p>
        </Empty>
      ) : null}
      {live.data?.length ? (
        <TablePanel
          label="Configured receivers"
          columns={["Name", "Kind", "Receives", "From severity", "Now", ACTIONS]}
        >
          {live.data.map((receiver) => (
            <tr key={receiver.name}>
              <td>{receiver.name}</td>
              <td>{receiver.kind}</td>
              <td>{receivesOf(receiver)}</td>
              <td>{receiver.least_severity}</td>
              <td>{receiver.is_quiet ? "quiet hours" : "all hours"}</td>
              <td>
                <Button
                  className="button plain"
                  aria-label={`Send a test to ${receiver.name}`}
                  onPress={() => void sendTest(receiver.name)}
                >
                  Send a test
                </Button>
              </td>
            </tr>
          ))}
        </TablePanel>
      ) : null}
    </section>
  );
}

function receivesOf({ tells_alerts, tells_owners, kinds }: Receiver): string {
  const topics = [tells_alerts ? "alerts" : "", tells_owners ? "people's sessions" : ""].filter(Boolean).join(", ");
  return kinds.length ? `${topics}: ${kinds.map(words).join(", ")}` : topics;
}
