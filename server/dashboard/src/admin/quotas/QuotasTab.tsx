import { useRef } from "react";
import { Button } from "react-aria-components";
import { useSearchParams } from "wouter";
import { ask, change } from "../../api/client";
import { useLive } from "../../api/live";
import { plain, quantities } from "../../format/amounts";
import { QuotasDocument, QuotaUseDocument, RemoveQuotaDocument } from "../../generated/graphql";
import { useIdentity } from "../../identity/me";
import { mayOperate, operatorsOnly } from "../../identity/rights";
import { ConfirmButton } from "../../parts/ConfirmButton";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { ACTIONS, figure, TablePanel } from "../../parts/Table";
import { carryOut } from "../../session/actions";
import { draftFor, subjectOf, type Quota } from "./draft";
import { QuotaDialogue } from "./QuotaDialogue";
import { useOf } from "./use";

/** Limits of users, projects and the cluster. */
export function QuotasTab() {
  const live = useLive(async () => (await ask(QuotasDocument, {})).quotas, "quotas", { everyMs: 10_000 });
  const uses = useLive(async () => (await ask(QuotaUseDocument, {})).quota_use, "quota_use", { everyMs: 10_000 });
  const useFor = ({ scope, name }: Quota) => useOf(uses.data ?? [], scope, name);
  const [search, setSearch] = useSearchParams();
  const subject = search.get("of");
  const me = useIdentity();
  const isOperator = mayOperate(me);
  const isOpenedHere = useRef(false);
  const open = (of: string) => {
    isOpenedHere.current = true;
    setSearch({ tab: "quotas", of });
  };
  // Else the history would have the page without the dialogue twice.
  const close = () => {
    if (!isOpenedHere.current) return setSearch({ tab: "quotas" }, { replace: true });
    isOpenedHere.current = false; // going back takes a moment, in which it can be pressed again
    history.back();
  };
  const done = () => {
    close();
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
          <Button className="button main" onPress={() => open("new")}>
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
            figure("Budget per month", "By the prices of the policy"),
            figure("Weight"),
            ...(isOperator ? [ACTIONS] : []),
          ]}
        >
          {live.data.map((quota) => (
            <tr key={`${quota.scope}:${quota.name}`}>
              <td>
                {quota.scope} <b>{quota.name}</b>
              </td>
              <td>
                {quantities(quota.max_slots) || "—"}
                {quota.max_slots.length ? (
                  <div className="quiet small">now {quantities(useFor(quota).held) || "nothing"}</div>
                ) : null}
              </td>
              <td>{quantities(quota.own_slots) || "—"}</td>
              <td className="figure">{ofLimit(useFor(quota).waiting, quota.max_queued)}</td>
              <td className="figure">{ofLimit(useFor(quota).gpu_hours_month, quota.gpu_hours_per_month)}</td>
              <td className="figure">{ofLimit(useFor(quota).cost_month, quota.budget)}</td>
              <td className="figure">{quota.weight ?? "—"}</td>
              {isOperator ? (
                <td className="nowrap">
                  <Button
                    className="button plain"
                    aria-label={`Change the quota of ${quota.name || "the cluster"}`}
                    onPress={() => open(subjectOf(quota))}
                  >
                    Change
                  </Button>
                  <ConfirmButton
                    text="Remove …"
                    label={`Remove the quota of ${quota.name || "the cluster"}`}
                    isPlain
                    question={`Remove the quota of ${quota.name || "the cluster"}?`}
                    yes="Remove the quota"
                    no="Keep it"
                    act={() => remove(quota)}
                  >
                    Its limits and guarantees end immediately.
                  </ConfirmButton>
                </td>
              ) : null}
            </tr>
          ))}
        </TablePanel>
      ) : null}
      {subject && live.data && isOperator ? (
        <QuotaDialogue
          key={subject}
          start={draftFor(subject, live.data)}
          quotas={live.data}
          refresh={live.refresh}
          onClose={close}
          onDone={done}
        />
      ) : null}
    </div>
  );
}

/** `3 of 10`, and a dash without a limit. */
function ofLimit(now: number, limit: number | null): string {
  return limit === null ? "—" : `${plain(now)} of ${limit}`;
}
