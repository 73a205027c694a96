import { useState } from "react";
import { Button } from "react-aria-components";
import { ask, change } from "../../api/client";
import { useLive } from "../../api/live";
import { QuotasDocument, RemoveQuotaDocument } from "../../generated/graphql";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { DEEDS, figure, TablePanel } from "../../parts/Table";
import { carryOut } from "../../session/actions";
import { draftOf, NEW, slotsText, type Draft, type Quota } from "./draft";
import { QuotaDialogue } from "./QuotaDialogue";

/** Limits of users, projects and the cluster. */
export function QuotasTab() {
  const live = useLive(async () => (await ask(QuotasDocument, {})).quotas, "quotas", { everyMs: 10_000 });
  const [editing, setEditing] = useState<Draft | null>(null);
  const done = () => {
    setEditing(null);
    live.refresh();
  };
  const remove = async ({ scope, name, version }: Quota) => {
    const input = { scope, name, expected_version: version };
    await carryOut("The quota is gone.", async () => (await change(RemoveQuotaDocument, { input })).remove_quota);
    live.refresh();
  };
  return (
    <div className="stack">
      <Faults of={live} />
      <div className="row">
        <Button className="button main" onPress={() => setEditing(NEW)}>
          New quota …
        </Button>
      </div>
      {live.data?.length === 0 ? (
        <Empty title="Nothing is limited">
          <p>A quota limits what a user, a project or all together hold, have waiting, or use in a month.</p>
        </Empty>
      ) : null}
      {live.data?.length ? (
        <TablePanel
          label="Quotas"
          columns={[
            "For",
            "Held at most",
            "Its own",
            figure("Waiting"),
            figure("GPU-hours a month"),
            figure("Weight"),
            DEEDS,
          ]}
        >
          {live.data.map((quota) => (
            <tr key={`${quota.scope}:${quota.name}`}>
              <td>
                {quota.scope} <b>{quota.name}</b>
              </td>
              <td>{slotsText(quota.max_slots) || "—"}</td>
              <td>{slotsText(quota.own_slots) || "—"}</td>
              <td className="figure">{quota.max_queued ?? "—"}</td>
              <td className="figure">{quota.gpu_hours_per_month ?? "—"}</td>
              <td className="figure">{quota.weight ?? "—"}</td>
              <td className="nowrap">
                <Button
                  className="button plain"
                  aria-label={`Change the quota of ${quota.name || "the cluster"}`}
                  onPress={() => setEditing(draftOf(quota))}
                >
                  Change
                </Button>
                <Button
                  className="button plain"
                  aria-label={`Remove the quota of ${quota.name || "the cluster"}`}
                  onPress={() => void remove(quota)}
                >
                  Remove
                </Button>
              </td>
            </tr>
          ))}
        </TablePanel>
      ) : null}
      {editing ? <QuotaDialogue start={editing} onClose={() => setEditing(null)} onDone={done} /> : null}
    </div>
  );
}
