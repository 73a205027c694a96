import { Button } from "react-aria-components";
import { ask, change } from "../../api/client";
import { useLive } from "../../api/live";
import { TryLastWeek } from "../../backtest/TryLastWeek";
import {
  ProjectsDocument,
  QuotaUseDocument,
  SetQuotaDocument,
  UsersDocument,
  type QuotaScope,
} from "../../generated/graphql";
import { Choice } from "../../parts/Choice";
import { Dialogue } from "../../parts/Dialogue";
import { useFormState } from "../../parts/formState";
import { useIsShown } from "../../parts/shown";
import { Text } from "../../parts/Text";
import { carryOut } from "../../session/actions";
import {
  behindText,
  changedBy,
  draftOf,
  hasOnlyBudget,
  inputOf,
  NEW,
  newText,
  rebased,
  subjectOf,
  wrongsOf,
  type Amounts,
  type Draft,
  type Quota,
  type Wrongs,
} from "./draft";
import { countText, nowText, useOf, type Use } from "./use";

interface Props {
  readonly start: Draft;
  /** All quotas, as they are now. */
  readonly quotas: readonly Quota[];
  readonly refresh: () => void;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const SCOPES = [
  { id: "user", text: "a user" },
  { id: "project", text: "a project" },
  { id: "cluster", text: "the whole cluster" },
  { id: "key", text: "an API key (its id)" },
] as const;
const NO_USES: readonly Use[] = [];

/** Creates or changes a quota; beside each limit is the present use. */
export function QuotaDialogue({ start, quotas, refresh, onClose, onDone }: Props) {
  const [{ base, draft }, setState] = useFormState(`quota/${subjectOf(start)}`, { base: start, draft: start });
  const isShown = useIsShown();
  const newest = changedBy(draft, quotas);
  const behind = behindText(draft, newest);
  const uses = useLive(async () => (await ask(QuotaUseDocument, {})).quota_use, "quota_use", { everyMs: 10_000 });
  const use = useOf(uses.data ?? NO_USES, draft.scope, draft.name);
  const names = useLive(() => loadNames(draft.scope), `quota-names/${draft.scope}`);
  const wrongs = wrongsOf(draft);
  const isWrong = Object.keys(wrongs).length > 0;
  const run = { quotas: [inputOf(draft)] };
  const edit = (part: Partial<Draft>) => setState({ base, draft: { ...draft, ...part } });
  const save = async () => {
    const input = inputOf(draft);
    const isDone = await carryOut(
      "The quota is saved.",
      async () => (await change(SetQuotaDocument, { input })).set_quota,
    );
    if (isDone && isShown()) onDone();
    else refresh();
  };
  const catchUp = () => {
    setState({ base: newest === undefined ? NEW : draftOf(newest), draft: rebased(newest, base, draft) });
  };
  const isKnown = start.version > 0;
  return (
    <Dialogue
      title={isKnown ? `Quota of ${start.name || "the cluster"}` : "New quota"}
      isOpen
      onClose={onClose}
      actions={
        <Button
          className="button main"
          type="submit"
          isDisabled={isWrong || behind !== null}
          onPress={() => void save()}
        >
          Save
        </Button>
      }
    >
      <div role="status">
        {behind ? (
          <p className="note">
            {behind} What you typed is kept.{" "}
            <Button className="button" onPress={catchUp}>
              {newest ? "Apply my changes to it" : "Create it again"}
            </Button>
          </p>
        ) : null}
      </div>
      {isKnown ? null : (
        <div className="pair">
          <Choice label="For" value={draft.scope} options={SCOPES} onChange={(scope) => edit({ scope })} />
          {draft.scope === "cluster" ? null : (
            <Text
              label="Name"
              value={draft.name}
              wrong={draft.name ? wrongs["name"] : undefined}
              hint={names.data ? newText(draft, names.data) : undefined}
              onChange={(name) => edit({ name })}
            />
          )}
        </div>
      )}
      {hasOnlyBudget(draft) ? null : <Limits draft={draft} wrongs={wrongs} use={use} edit={edit} />}
      <Text
        label="Budget per month"
        value={draft.budget}
        wrong={wrongs["budget"]}
        hint={`${use.cost_month.toFixed(2)} spent this month, UTC, by the prices of the policy`}
        onChange={(budget) => edit({ budget })}
      />
      <p className="quiet small">
        {hasOnlyBudget(draft)
          ? "The only limit of an API key is its budget."
          : "Empty fields set no limit, and guarantee nothing."}
      </p>
      <TryLastWeek key={JSON.stringify(run)} run={run} isDisabled={isWrong} />
    </Dialogue>
  );
}

interface LimitsProps {
  readonly draft: Draft;
  readonly wrongs: Wrongs;
  readonly use: Use;
  readonly edit: (part: Partial<Draft>) => void;
}

/** All limits but the budget. */
function Limits({ draft, wrongs, use, edit }: LimitsProps) {
  return (
    <>
      <AmountFields
        title="Maximum held"
        group="max"
        amounts={draft.max}
        wrongs={wrongs}
        use={use}
        onChange={(max) => edit({ max })}
      />
      {draft.scope === "cluster" ? null : (
        <AmountFields
          title="Guaranteed"
          hint="Unused amounts are lent to others, and reclaimed."
          group="own"
          amounts={draft.own}
          wrongs={wrongs}
          onChange={(own) => edit({ own })}
        />
      )}
      <div className="pair">
        <Text
          label="Waiting tasks, at most"
          value={draft.queued}
          wrong={wrongs["queued"]}
          hint={countText("waiting", use.waiting, draft.queued)}
          onChange={(queued) => edit({ queued })}
        />
        <Text
          label="GPU-hours per month"
          value={draft.hours}
          wrong={wrongs["hours"]}
          hint={countText("used this month, UTC", use.gpu_hours_month, draft.hours)}
          onChange={(hours) => edit({ hours })}
        />
      </div>
      <Text
        label="Weight"
        value={draft.weight}
        wrong={wrongs["weight"]}
        hint="Of fair share. Empty = 1000 for each GPU guaranteed, else for each held at most, else 1000."
        onChange={(weight) => edit({ weight })}
      />
    </>
  );
}

/** The names of the users or projects that exist; null for what has no list. */
async function loadNames(scope: QuotaScope): Promise<readonly string[] | null> {
  if (scope === "user") return (await ask(UsersDocument, {})).users.map(({ name }) => name);
  if (scope === "project") return (await ask(ProjectsDocument, {})).projects.map(({ name }) => name);
  return null;
}

interface AmountProps {
  readonly title: string;
  readonly hint?: string;
  readonly group: "max" | "own";
  readonly amounts: Amounts;
  readonly wrongs: Wrongs;
  /** The held amount; left out where it is no limit. */
  readonly use?: Use;
  readonly onChange: (amounts: Amounts) => void;
}

/** Amounts with their units. */
function AmountFields({ title, hint, group, amounts, wrongs, use, onChange }: AmountProps) {
  const field = (name: "gpus" | "cpus" | "mem", label: string, placeholder: string) => (
    <Text
      label={label}
      value={amounts[name]}
      wrong={wrongs[`${group}.${name}`]}
      placeholder={placeholder}
      hint={use && nowText(name, use, amounts[name])}
      onChange={(value) => onChange({ ...amounts, [name]: value })}
    />
  );
  const empty = group === "own" ? "none" : "no limit";
  return (
    <fieldset className="stack amounts" aria-label={title}>
      <legend>{title}</legend>
      {hint ? <p className="quiet small">{hint}</p> : null}
      <div className="pair">
        {field("gpus", "GPUs", empty)}
        {field("cpus", "CPUs", empty)}
      </div>
      <div className="pair">
        {field("mem", "Memory", "like 64g")}
        <Text
          label="Other slots"
          value={amounts.other}
          wrong={wrongs[`${group}.other`]}
          placeholder="like rocm.device 4"
          onChange={(other) => onChange({ ...amounts, other })}
        />
      </div>
    </fieldset>
  );
}
