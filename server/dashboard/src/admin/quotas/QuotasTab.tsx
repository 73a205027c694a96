import { useState } from "react";
import { Button } from "react-aria-components";
import { ask, change } from "../../api/client";
import { useLive } from "../../api/live";
import { quantities } from "../../format/amounts";
import { QuotasDocument, RemoveQuotaDocument } from "../../generated/graphql";
import { useIdentity } from "../../identity/me";
import { mayOperate, operatorsOnly } from "../../identity/rights";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { ACTIONS, figure, TablePanel } from "../../parts/Table";
import { carryOut } from "../../session/actions";
import { draftOf, NEW, type Draft, type Quota } from "./draft";
import { QuotaDialogue } from "./QuotaDialogue";

/** Limits of users, projects and the cluster. */
export function QuotasTab() {
  const live = useLive(async () => (await ask(QuotasDocument, {})).quotas, "quotas", { everyMs: 10_000 });
  const [editing, setEditing] = useState<Draft | null>(null);
  const me = useIdentity();
  const isOperator = mayOperate(me);
  const done = () => {
    setEditing(null);
    live.refresh();
  };
  const remove = async ({ scope, name, version }: Quota) => {
    const input = { scope, name, expected_version: version };
    await carryOut("The quota is removed.", async () => (await change(RemoveQuotaDocument, { input })).remove_quota);
    live.refresh();
  };
  return (
    <div className="stack">
      <Faults of={live} />
      <div className="row">
        {isOperator ? (
          <Button className="button main" onPress={() => setEditing(NEW)}>
            New quota …
          </Button>
        ) : (
          <p>{operatorsOnly(me, "change quotas")}</p>
        )}
      </div>
      {live.data?.length === 0 ? (
        <Empty title="There are no quotas">
          <p>
            A quota limits the devices held, the tasks waiting and the GPU-hours per month of a user, a project or the
            cluster.
          </p>
        </Empty>
      ) : null}
      {live.data?.length ? (
        <TablePanel
          label="Quotas"
          columns={[
            "Subject",
            "Maximum held",
            "Guaranteed",
            figure("Waiting tasks"),
            figure("GPU-hours per month"),
            figure("Weight"),
            ...(isOperator ? [ACTIONS] : []),
          ]}
        >
          {live.data.map((quota) => (
            <tr key={`${quota.scope}:${quota.name}`}>
              <td>
                {quota.scope} <b>{quota.name}</b>
              </td>
              <td>{quantities(quota.max_slots) || "—"}</td>
              <td>{quantities(quota.own_slots) || "—"}</td>
              <td className="figure">{quota.max_queued ?? "—"}</td>
              <td className="figure">{quota.gpu_hours_per_month ?? "—"}</td>
              <td className="figure">{quota.weight ?? "—"}</td>
              {isOperator ? (
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
              ) : null}
            </tr>
          ))}
        </TablePanel>
      ) : null}
      {editing ? <QuotaDialogue start={editing} onClose={() => setEditing(null)} onDone={done} /> : null}
    </div>
  );
}
