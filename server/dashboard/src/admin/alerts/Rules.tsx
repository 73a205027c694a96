import { Button } from "react-aria-components";
import { ask } from "../../api/client";
import { useLive } from "../../api/live";
import { useNow } from "../../format/clock";
import { duration, moment } from "../../format/times";
import { words } from "../../format/words";
import { NoticeRulesDocument } from "../../generated/graphql";
import { Faults } from "../../parts/Faults";
import { useFormState } from "../../parts/formState";
import { ACTIONS, figure, TablePanel } from "../../parts/Table";
import { mute } from "./deeds";
import { hasFloor, thresholdOf, type Rule } from "./draft";
import { RuleDialogue } from "./RuleDialogue";
import { SeverityBadge } from "./SeverityBadge";

const MUTE_S = 3_600;

/** The alert rules. */
export function Rules({ isAdmin }: { readonly isAdmin: boolean }) {
  const live = useLive(async () => (await ask(NoticeRulesDocument, {})).notice_rules, "rules", { everyMs: 10_000 });
  const [editing, setEditing] = useFormState<Rule | null>("rule", null);
  const now = useNow();
  const isMuted = (rule: Rule) => rule.muted_until !== null && Date.parse(rule.muted_until) > now;
  const hushOf = (rule: Rule) => (isMuted(rule) ? "Unmute" : "Mute for 1 h");
  const done = () => {
    setEditing(null);
    live.refresh();
  };
  const hush = async (rule: Rule) => {
    await mute(rule.rule, isMuted(rule) ? 0 : MUTE_S);
    live.refresh();
  };
  return (
    <section className="stack" aria-label="Rules">
      <h2>Rules</h2>
      <Faults of={live} />
      {live.data ? (
        <TablePanel
          label="Alert rules"
          columns={["Rule", "Severity", figure("Above"), figure("Must hold for"), "State", ACTIONS]}
        >
          {live.data.map((rule) => (
            <tr key={rule.rule}>
              <td>
                {words(rule.rule)}
                <div className="quiet small sentence">{rule.description}</div>
              </td>
              <td>
                <SeverityBadge of={rule.severity} />
              </td>
              <td className="figure">
                {thresholdOf(rule) || "—"}
                {hasFloor(rule) ? <div className="quiet small">of at least {rule.floor}</div> : null}
              </td>
              <td className="figure">{rule.for_s ? duration(rule.for_s * 1000) : "0 s"}</td>
              <td>
                {rule.is_on ? "on" : <span className="warn">off</span>}
                {isMuted(rule) ? (
                  <span className="warn">, muted until {moment(rule.muted_until ?? 0, now)}</span>
                ) : null}
              </td>
              <td className="nowrap">
                {isAdmin ? (
                  <Button
                    className="button plain"
                    aria-label={`Change ${words(rule.rule)}`}
                    onPress={() => setEditing(rule)}
                  >
                    Change
                  </Button>
                ) : null}
                <Button
                  className="button plain"
                  aria-label={`${hushOf(rule)}: ${words(rule.rule)}`}
                  onPress={() => void hush(rule)}
                >
                  {hushOf(rule)}
                </Button>
              </td>
            </tr>
          ))}
        </TablePanel>
      ) : null}
      {editing ? <RuleDialogue rule={editing} onClose={() => setEditing(null)} onDone={done} /> : null}
    </section>
  );
}
