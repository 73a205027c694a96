import { ask } from "../../api/client";
import { useLive } from "../../api/live";
import { moment } from "../../format/times";
import { words } from "../../format/words";
import { DeliveriesDocument, type DeliveriesQuery } from "../../generated/graphql";
import { Faults } from "../../parts/Faults";
import { TablePanel } from "../../parts/Table";

type Delivery = DeliveriesQuery["deliveries"]["edges"][number]["node"];

const TONES = { waiting: "warn", sent: "good", given_up: "bad" } as const;

/** The newest notifications and their outcome. */
export function Deliveries() {
  const live = useLive(async () => (await ask(DeliveriesDocument, {})).deliveries.edges, "deliveries", {
    everyMs: 3_000,
  });
  if (live.data?.length === 0) return null;
  return (
    <section className="stack" aria-label="Deliveries">
      <h2>Newest notifications</h2>
      <Faults of={live} />
      {live.data ? (
        <TablePanel label="Notifications" columns={["When", "Receiver", "Kind", "Message", "State"]}>
          {live.data.map(({ node: delivery }) => (
            <tr key={delivery.id}>
              <td className="nowrap">{moment(delivery.made_at)}</td>
              <td>
                {delivery.receiver}
                {delivery.user ? <div className="quiet small">for {delivery.user}</div> : null}
              </td>
              <td className="nowrap">
                {words(delivery.kind)}
                {delivery.is_over ? ", resolved" : ""}
              </td>
              <td className="sentence">{delivery.message}</td>
              <td>
                <span className={`badge fill-${TONES[delivery.state]}`}>{words(delivery.state)}</span>
                <div className="small">{outcomeOf(delivery)}</div>
              </td>
            </tr>
          ))}
        </TablePanel>
      ) : null}
    </section>
  );
}

function outcomeOf({ tries, error, next_try_at: next }: Delivery): string {
  if (!error) return "";
  return `${error} (attempt ${tries}${next ? `, next ${moment(next)}` : ""})`;
}
