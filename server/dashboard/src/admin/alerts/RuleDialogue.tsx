import { Button } from "react-aria-components";
import { words } from "../../format/words";
import { Check } from "../../parts/Check";
import { Choice } from "../../parts/Choice";
import { Dialogue } from "../../parts/Dialogue";
import { useFormState } from "../../parts/formState";
import { Text } from "../../parts/Text";
import { setRule } from "./deeds";
import { draftOf, hasFloor, inputOf, SEVERITIES, wrongsOf, type Draft, type Rule } from "./draft";
import { useIsShown } from "../../parts/shown";

interface Props {
  readonly rule: Rule;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Edits an alert rule: its threshold and its severity. */
export function RuleDialogue({ rule, onClose, onDone }: Props) {
  const [draft, setDraft] = useFormState(`rule/${rule.rule}`, draftOf(rule));
  const wrongs = wrongsOf(rule, draft);
  const edit = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const isShown = useIsShown();
  const save = async () => {
    if ((await setRule(inputOf(rule, draft))) && isShown()) onDone();
  };
  return (
    <Dialogue
      title={`Rule: ${words(rule.rule)}`}
      isOpen
      onClose={onClose}
      actions={
        <Button
          className="button main"
          type="submit"
          isDisabled={Object.keys(wrongs).length > 0}
          onPress={() => void save()}
        >
          Save
        </Button>
      }
    >
      <p className="quiet">{rule.description}</p>
      <Check text="Enabled" isOn={draft.isOn} onChange={(isOn) => edit({ isOn })} />
      <div className="pair">
        {rule.unit ? (
          <Text
            label={`Above, ${rule.unit}`}
            value={draft.threshold}
            wrong={wrongs.threshold}
            onChange={(threshold) => edit({ threshold })}
          />
        ) : null}
        {hasFloor(rule) ? (
          <Text
            label="Compared, at least"
            value={draft.floor}
            wrong={wrongs.floor}
            hint="Below this number of sessions, or of GPUs of one session, the rule says nothing."
            onChange={(floor) => edit({ floor })}
          />
        ) : null}
        <Text
          label="Must hold for"
          value={draft.holds}
          wrong={wrongs.holds}
          hint="Without a break, like 10m."
          onChange={(holds) => edit({ holds })}
        />
      </div>
      <Choice
        label="Severity"
        value={draft.severity}
        options={SEVERITIES}
        onChange={(severity) => edit({ severity })}
      />
    </Dialogue>
  );
}
