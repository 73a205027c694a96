import { useState } from "react";
import { Button } from "react-aria-components";
import { change } from "../../api/client";
import { SetQuotaDocument } from "../../generated/graphql";
import { Choice } from "../../parts/Choice";
import { Dialogue } from "../../parts/Dialogue";
import { Text } from "../../parts/Text";
import { carryOut } from "../../session/actions";
import { inputOf, wrongsOf, type Draft } from "./draft";

interface Props {
  readonly start: Draft;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const SCOPES = [
  { id: "user", text: "a user" },
  { id: "project", text: "a project" },
  { id: "cluster", text: "the whole cluster" },
] as const;

/** Creates or changes a quota. */
export function QuotaDialogue({ start, onClose, onDone }: Props) {
  const [draft, setDraft] = useState(start);
  const wrongs = wrongsOf(draft);
  const edit = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const save = async () => {
    const input = inputOf(draft);
    if (await carryOut("The quota is saved.", async () => (await change(SetQuotaDocument, { input })).set_quota))
      onDone();
  };
  const isKnown = start.version > 0;
  return (
    <Dialogue
      title={isKnown ? `Quota of ${start.name || "the cluster"}` : "New quota"}
      isOpen
      onClose={onClose}
      actions={
        <Button className="button main" isDisabled={Object.keys(wrongs).length > 0} onPress={() => void save()}>
          Save
        </Button>
      }
    >
      {isKnown ? null : (
        <div className="pair">
          <Choice label="For" value={draft.scope} options={SCOPES} onChange={(scope) => edit({ scope })} />
          {draft.scope === "cluster" ? null : (
            <Text
              label="Name"
              value={draft.name}
              wrong={draft.name ? wrongs.name : undefined}
              onChange={(name) => edit({ name })}
            />
          )}
        </div>
      )}
      <Text
        label="Maximum held"
        value={draft.max}
        wrong={wrongs.max}
        hint="Like cuda.device 4, mem 64g."
        onChange={(max) => edit({ max })}
      />
      <Text
        label="Guaranteed"
        value={draft.own}
        wrong={wrongs.own}
        hint="Unused amounts are lent, and reclaimed."
        onChange={(own) => edit({ own })}
      />
      <div className="pair">
        <Text
          label="Waiting tasks, at most"
          value={draft.queued}
          wrong={wrongs.queued}
          onChange={(queued) => edit({ queued })}
        />
        <Text
          label="GPU-hours per month"
          value={draft.hours}
          wrong={wrongs.hours}
          onChange={(hours) => edit({ hours })}
        />
      </div>
      <Text
        label="Weight"
        value={draft.weight}
        wrong={wrongs.weight}
        hint="Its share among users or projects of the same level."
        onChange={(weight) => edit({ weight })}
      />
      <p className="quiet small">Empty fields set no limit.</p>
    </Dialogue>
  );
}
