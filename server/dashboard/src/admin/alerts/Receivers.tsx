import { Button } from "react-aria-components";
import { ask } from "../../api/client";
import { useLive } from "../../api/live";
import { words } from "../../format/words";
import { ReceiversDocument, type ReceiversQuery } from "../../generated/graphql";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { DEEDS, TablePanel } from "../../parts/Table";
import { sendTest } from "./deeds";

type Receiver = ReceiversQuery["notice_receivers"][number];

/** Where notices go, as the settings say; each can be tried. */
export function Receivers() {
  const live = useLive(async () => (await ask(ReceiversDocument, {})).notice_receivers, "receivers", {
    everyMs: 60_000,
  });
  return (
    <section className="stack" aria-label="Receivers">
      <h2>Receivers</h2>
      <Faults of={live} />
      {live.data?.length === 0 ? (
        <Empty title="Nobody is told">
          <p>Alerts are shown here alone. Receivers are named in the server's settings: webhooks, Slack, or mail.</p>
        </Empty>
      ) : null}
      {live.data?.length ? (
        <TablePanel label="Where notices go" columns={["Name", "Kind", "Is told of", "From", "Now", DEEDS]}>
          {live.data.map((receiver) => (
            <tr key={receiver.name}>
              <td>{receiver.name}</td>
              <td>{receiver.kind}</td>
              <td>{toldOf(receiver)}</td>
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

function toldOf({ tells_alerts, tells_owners, kinds }: Receiver): string {
  const whom = [tells_alerts ? "alerts" : "", tells_owners ? "people's sessions" : ""].filter(Boolean).join(", ");
  return kinds.length ? `${whom}: ${kinds.map(words).join(", ")}` : whom;
}
