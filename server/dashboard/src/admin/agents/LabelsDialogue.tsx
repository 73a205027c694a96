import { Button } from "react-aria-components";
import { Dialogue } from "../../parts/Dialogue";
import { useFormState } from "../../parts/formState";
import { Text } from "../../parts/Text";
import { variablesOf } from "../../submit/form";
import { label } from "./deeds";
import type { AdminAgent } from "./loading";
import { useIsShown } from "../../parts/shown";

interface Props {
  readonly agent: AdminAgent;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Edits the labels of an agent, one per line. */
export function LabelsDialogue({ agent, onClose, onDone }: Props) {
  const first = agent.labels.map(({ name, value }) => `${name}=${value}`).join("\n");
  const [text, setText] = useFormState(`labels/${agent.id}`, first);
  const bad = text.split("\n").find((line) => line.trim() && !/^[^=\s]+=/.test(line.trim()));
  const isShown = useIsShown();
  const act = async () => {
    if ((await label({ id: agent.id, labels: variablesOf(text) })) && isShown()) onDone();
  };
  return (
    <Dialogue
      title={`Labels of ${agent.id}`}
      isOpen
      onClose={onClose}
      actions={
        <Button className="button main" isDisabled={bad !== undefined} onPress={() => void act()}>
          Save
        </Button>
      }
    >
      <Text
        label="Labels"
        rows={4}
        value={text}
        wrong={bad === undefined ? undefined : `Write NAME=value on each line; this is not: ${bad}`}
        hint="NAME=value on each line; sessions select agents by them."
        onChange={setText}
      />
    </Dialogue>
  );
}
