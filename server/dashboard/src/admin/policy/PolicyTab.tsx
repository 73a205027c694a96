import { useRef, useState } from "react";
import { Button } from "react-aria-components";
import { ask, change } from "../../api/client";
import { useLive } from "../../api/live";
import { user } from "../../api/presence";
import { quantity } from "../../format/amounts";
import { duration, moment } from "../../format/times";
import { PolicyDocument, UpdatePolicyDocument, type PolicyPartsFragment } from "../../generated/graphql";
import { useIdentity } from "../../identity/me";
import { mayOperate, operatorsOnly } from "../../identity/rights";
import { Choice } from "../../parts/Choice";
import { Dialogue } from "../../parts/Dialogue";
import { Faults } from "../../parts/Faults";
import { Text } from "../../parts/Text";
import { carryOut } from "../../session/actions";
import { EffectOf } from "../EffectOf";
import { TryLastWeek } from "../../backtest/TryLastWeek";
import { Difference } from "./Difference";
import { useDraft } from "./draft";
import { GROUPS, inputOf, tryOf, wrongsOf, type Setting } from "./settings";

/** The scheduling policy: all changes are saved together, after a review. */
export function PolicyTab() {
  const live = useLive(async () => (await ask(PolicyDocument, {})).policy, "policy", { everyMs: 10_000 });
  if (!live.data) return <Faults of={live} />;
  return <PolicyForm policy={live.data} refresh={live.refresh} />;
}

interface FormProps {
  readonly policy: PolicyPartsFragment;
  readonly refresh: () => void;
}

function PolicyForm({ policy, refresh }: FormProps) {
  const { base, draft, setDraft, changes, isBehind, catchUp, putBack } = useDraft(policy, `policy/${user.get()}`);
  const [isReviewing, setReviewing] = useState(false);
  const version = useRef<HTMLSpanElement>(null);
  const me = useIdentity();
  const isOperator = mayOperate(me);
  const wrongs = wrongsOf(draft);
  const isWhole = Object.keys(wrongs).length === 0;
  const save = async () => {
    setReviewing(false);
    const input = inputOf(changes, base.version);
    const isDone = await carryOut(
      "The policy is changed, from the next scheduling pass on.",
      async () => (await change(UpdatePolicyDocument, { input })).update_policy,
    );
    if (!isDone) return;
    leaveButtons();
    refresh();
  };
  // Without changes the buttons are disabled, and a disabled one loses the focus.
  const leaveButtons = () => version.current?.focus();
  return (
    <div className="stack">
      <div className="row">
        <span ref={version} tabIndex={-1} className="quiet">
          version {base.version}
          {base.changed_at ? `, changed ${moment(base.changed_at)}` : ", never changed"}
        </span>
        {isOperator ? (
          <span className="end row">
            <Button className="button" isDisabled={changes.length === 0} onPress={() => (putBack(), leaveButtons())}>
              Reset
            </Button>
            <Button
              className="button main"
              isDisabled={changes.length === 0 || !isWhole || isBehind}
              onPress={() => setReviewing(true)}
            >
              {changes.length === 0
                ? "No changes"
                : `Review ${changes.length} ${changes.length === 1 ? "change" : "changes"} …`}
            </Button>
          </span>
        ) : (
          <span className="end">{operatorsOnly(me, "change the policy")}</span>
        )}
      </div>
      <div role="status">
        {isBehind ? (
          <p className="note">
            Someone else saved version {policy.version} meanwhile. Your changes are kept.{" "}
            <Button className="button" onPress={catchUp}>
              Apply my changes to version {policy.version}
            </Button>
          </p>
        ) : null}
      </div>
      <fieldset className="groups" disabled={!isOperator}>
        {GROUPS.map((group) => (
          <section
            key={group.title}
            className={group.settings.length > 4 ? "panel stack wide" : "panel stack"}
            aria-label={group.title}
          >
            <h2>
              {group.title}{" "}
              <a className="help" href={`/docs/${group.page}`}>
                Docs<span className="hidden"> about {group.title}</span>
              </a>
            </h2>
            <div className="fields">
              {group.settings.map((setting) => (
                <Field
                  key={setting.path}
                  setting={setting}
                  value={draft[setting.path] ?? ""}
                  wrong={wrongs[setting.path]}
                  onChange={(value) => setDraft({ ...draft, [setting.path]: value })}
                />
              ))}
            </div>
          </section>
        ))}
        <Fixed policy={policy} />
      </fieldset>
      <Dialogue
        title="Change the policy?"
        isOpen={isReviewing}
        onClose={() => setReviewing(false)}
        actions={
          <Button className="button main" onPress={() => void save()}>
            Save
          </Button>
        }
      >
        <Difference changes={changes} />
        {isReviewing && isWhole ? <EffectOf input={{ policy: inputOf(changes, base.version) }} /> : null}
        {isReviewing && isWhole ? <TryLastWeek run={{ policy: tryOf(changes) }} /> : null}
        <p className="quiet">It applies from the next scheduling pass on, also to waiting sessions.</p>
      </Dialogue>
    </div>
  );
}

/** The labels of `true` and `false`. */
const FLAGS: Readonly<Record<string, string>> = { true: "yes", false: "no" };

interface FieldProps {
  readonly setting: Setting;
  readonly value: string;
  readonly wrong: string | undefined;
  readonly onChange: (value: string) => void;
}

function Field({ setting, value, wrong, onChange }: FieldProps) {
  if (!setting.options)
    return <Text label={setting.label} value={value} wrong={wrong} hint={setting.hint} onChange={onChange} />;
  const known = setting.options.includes(value) ? setting.options : [...setting.options, value];
  return (
    <div className="stack tight">
      <Choice
        label={setting.label}
        value={value}
        options={known.map((id) => ({ id, text: FLAGS[id] ?? id }))}
        onChange={onChange}
      />
      <span className="quiet small">{setting.hint}</span>
    </div>
  );
}

function termsOf(pool: PolicyPartsFragment["pools"][number]): readonly string[] {
  return [
    ...(pool.default_limit ? [`limit ${duration(pool.default_limit * 1000)}`] : []),
    ...(pool.cpu_per_gpu === null ? [] : [`${pool.cpu_per_gpu} CPUs per GPU`]),
    ...(pool.mem_per_gpu === null ? [] : [`${quantity("mem", pool.mem_per_gpu)} per GPU`]),
  ];
}

/** Parts that can only be changed through the API. */
function Fixed({ policy }: { readonly policy: PolicyPartsFragment }) {
  const { charges, pools } = policy;
  return (
    <section className="panel stack" aria-label="Pools and charges">
      <h2>Pools and charges</h2>
      <p>Pools: {pools.map((pool) => [pool.name, ...termsOf(pool)].join(", ")).join("; ")}</p>
      <p>
        Charges, in GPUs: CPU {charges.cpu_milli / 1000}, GiB of memory {charges.mem_gib_milli / 1000}
        {charges.accelerators.map((one) => `, ${one.model} ${one.milli / 1000}`).join("")}.
      </p>
      <p className="quiet small">
        Change them with <code>update_policy</code> in <a href="/graphiql">GraphiQL</a>.
      </p>
    </section>
  );
}
