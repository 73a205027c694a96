import { useState } from "react";
import { Button } from "react-aria-components";
import { Link } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { SecretNamesDocument } from "../generated/graphql";
import { quantities } from "../format/amounts";
import { durationText } from "../format/times";
import { useIdentity } from "../identity/me";
import { Check } from "../parts/Check";
import { Choice } from "../parts/Choice";
import { Text } from "../parts/Text";
import { EMPTY, type Field, type FieldsProps } from "./form";
import { LABELS } from "./labels";
import { isUsed, notStored, SECRETS_PATH, toggled } from "./secrets";

const TOPOLOGIES = [
  { id: "prefer", text: "as few as possible" },
  { id: "require", text: "one, or it waits" },
] as const;

const FIELDS: readonly Field[] = [
  "preferredModels",
  "labels",
  "preferredLabels",
  "otherSlots",
  "retries",
  "retriesOwn",
  "isPreemptible",
  "checkpointSignal",
  "checkpointEvery",
  "kernelsMin",
  "topology",
  "grace",
  "processes",
  "openFiles",
  "secrets",
  "preflight",
  "preflightLimit",
  "isSandboxed",
  "isShared",
  "runId",
  "fallbacks",
];

/** Rarely used fields; folded until one of them is set or invalid. */
export function AdvancedFields({ form, wrongs, change }: FieldsProps) {
  const set = FIELDS.filter((name) => JSON.stringify(form[name]) !== JSON.stringify(EMPTY[name]));
  const need = FIELDS.some((name) => wrongs[name]) ? "wrong" : set.length ? "set" : null;
  const [isOpen, setOpen] = useState(need !== null);
  const [lastNeed, setLastNeed] = useState(need);
  // While rendering, not in an effect: a wrong field gets the focus as soon as it is marked.
  if (need !== lastNeed) {
    setLastNeed(need);
    setOpen((open) => open || need !== null);
  }
  return (
    <section className="panel stack" aria-labelledby="group-advanced">
      <h2 id="group-advanced">
        <Button className="button plain fold" aria-expanded={isOpen} onPress={() => setOpen(!isOpen)}>
          Advanced{set.length ? ` (${set.length} set)` : ""} <span aria-hidden="true">{isOpen ? "▴" : "▾"}</span>
        </Button>
      </h2>
      {isOpen ? (
        <>
          <Failures form={form} wrongs={wrongs} change={change} />
          <Places form={form} wrongs={wrongs} change={change} />
          <Preflight form={form} wrongs={wrongs} change={change} />
          <Confinement form={form} wrongs={wrongs} change={change} />
        </>
      ) : (
        <p className="quiet small">Retries, preemption, labels, limits, secrets and more.</p>
      )}
    </section>
  );
}

function Failures({ form, wrongs, change }: FieldsProps) {
  return (
    <>
      <div className="row wide">
        <Check text="Preemptible" isOn={form.isPreemptible} onChange={(isPreemptible) => change({ isPreemptible })} />
        <Check
          text="Retry failures of the command too"
          isOn={form.retriesOwn}
          onChange={(retriesOwn) => change({ retriesOwn })}
        />
      </div>
      <Text
        label={LABELS.retries}
        value={form.retries}
        wrong={wrongs.retries}
        onChange={(retries) => change({ retries })}
      />
      <div className="pair">
        <Text
          label={LABELS.checkpointSignal}
          value={form.checkpointSignal}
          wrong={wrongs.checkpointSignal}
          placeholder="none"
          hint="Asks it to save its work, like SIGUSR1."
          onChange={(checkpointSignal) => change({ checkpointSignal })}
        />
        <Text
          label={LABELS.checkpointEvery}
          value={form.checkpointEvery}
          wrong={wrongs.checkpointEvery}
          placeholder="never"
          hint="How often it saves its work, like 10m."
          onChange={(checkpointEvery) => change({ checkpointEvery })}
        />
      </div>
      <div className="pair">
        <Text
          label={LABELS.grace}
          value={form.grace}
          wrong={wrongs.grace}
          placeholder="the policy's"
          hint="From that signal to the stop, like 2m."
          onChange={(grace) => change({ grace })}
        />
        <Text
          label={LABELS.kernelsMin}
          value={form.kernelsMin}
          wrong={wrongs.kernelsMin}
          placeholder="all of them"
          hint="At least this many; it grows when there is room."
          onChange={(kernelsMin) => change({ kernelsMin })}
        />
      </div>
    </>
  );
}

function Places({ form, wrongs, change }: FieldsProps) {
  return (
    <>
      <Choice
        label={LABELS.topology}
        value={form.topology}
        wrong={wrongs.topology}
        options={TOPOLOGIES}
        onChange={(topology) => change({ topology })}
      />
      <Text
        label={LABELS.labels}
        rows={2}
        value={form.labels}
        wrong={wrongs.labels}
        placeholder="rack=7"
        onChange={(labels) => change({ labels })}
      />
      <Text
        label={LABELS.preferredLabels}
        rows={2}
        value={form.preferredLabels}
        wrong={wrongs.preferredLabels}
        onChange={(preferredLabels) => change({ preferredLabels })}
      />
      <Text
        label={LABELS.preferredModels}
        value={form.preferredModels}
        wrong={wrongs.preferredModels}
        hint="Patterns, separated by commas."
        onChange={(preferredModels) => change({ preferredModels })}
      />
      <Text
        label={LABELS.otherSlots}
        rows={2}
        value={form.otherSlots}
        wrong={wrongs.otherSlots}
        placeholder="rocm.shares=0.5"
        onChange={(otherSlots) => change({ otherSlots })}
      />
      <Text label={LABELS.runId} value={form.runId} wrong={wrongs.runId} onChange={(runId) => change({ runId })} />
      {form.fallbacks.length ? (
        <div className="row">
          <span>
            Smaller requests after a wait:{" "}
            {form.fallbacks.map((one) => `${quantities(one.slots)} after ${durationText(one.after_s)}`).join("; ")}
          </span>
          <Button className="button" onPress={() => change({ fallbacks: [] })}>
            Remove
          </Button>
        </div>
      ) : null}
    </>
  );
}

/** A check of the devices before the command. */
function Preflight({ form, wrongs, change }: FieldsProps) {
  return (
    <div className="pair">
      <Text
        label={LABELS.preflight}
        value={form.preflight}
        wrong={wrongs.preflight}
        placeholder="no check"
        hint="A command on every rank before yours starts; default = a bandwidth test."
        onChange={(preflight) => change({ preflight })}
      />
      <Text
        label={LABELS.preflightLimit}
        value={form.preflightLimit}
        wrong={wrongs.preflightLimit}
        placeholder="1m"
        hint="A check that takes longer has failed."
        onChange={(preflightLimit) => change({ preflightLimit })}
      />
    </div>
  );
}

function Confinement({ form, wrongs, change }: FieldsProps) {
  return (
    <>
      <div className="pair">
        <Text
          label={LABELS.processes}
          value={form.processes}
          wrong={wrongs.processes}
          placeholder="the agent's limit"
          hint="Maximum at one time."
          onChange={(processes) => change({ processes })}
        />
        <Text
          label={LABELS.openFiles}
          value={form.openFiles}
          wrong={wrongs.openFiles}
          placeholder="the agent's limit"
          hint="Maximum per process."
          onChange={(openFiles) => change({ openFiles })}
        />
      </div>
      <SecretsField form={form} wrongs={wrongs} change={change} />
      <Check
        text="Run in a sandbox, on nodes that can"
        isOn={form.isSandboxed}
        onChange={(isSandboxed) => change({ isSandboxed })}
      />
      <Check
        text="Members of the project may open its terminals and web services"
        isOn={form.isShared}
        onChange={(isShared) => change({ isShared })}
      />
    </>
  );
}

/** The secrets that the session receives, chosen from those that the user has stored. */
function SecretsField({ form, wrongs, change }: FieldsProps) {
  const me = useIdentity();
  const stored = useLive(async () => (await ask(SecretNamesDocument, {})).secrets, `secrets/${me?.name ?? ""}`, {
    everyMs: 30_000,
  });
  const names = stored.data?.map(({ name }) => name) ?? [];
  return (
    <>
      <Text
        label={LABELS.secrets}
        rows={2}
        value={form.secrets}
        wrong={(stored.data && notStored(form.secrets, names)) ?? wrongs.secrets}
        placeholder={"NAME=VARIABLE\nNAME=file:FILE"}
        hint={stored.data && !names.length ? "You have no secrets yet." : undefined}
        onChange={(secrets) => change({ secrets })}
      />
      {names.length ? (
        <div className="chips many" role="group" aria-label="Your secrets">
          {names.map((name) => (
            <Button
              key={name}
              className="button chip"
              aria-pressed={isUsed(form.secrets, name)}
              onPress={() => change({ secrets: toggled(form.secrets, name) })}
            >
              {name}
            </Button>
          ))}
        </div>
      ) : null}
      <p className="small">
        <Link href={SECRETS_PATH}>{names.length ? "Your secrets" : "Store a secret"}</Link>
      </p>
    </>
  );
}
