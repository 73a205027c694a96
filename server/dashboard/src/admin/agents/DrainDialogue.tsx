import { Button } from "react-aria-components";
import { Check } from "../../parts/Check";
import { Dialogue } from "../../parts/Dialogue";
import { useFormState } from "../../parts/formState";
import { Text } from "../../parts/Text";
import { EffectOf } from "../EffectOf";
import { drain } from "./deeds";
import { useIsShown } from "../../parts/shown";

interface Props {
  readonly id: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Drains an agent, with a reason. */
export function DrainDialogue({ id, onClose, onDone }: Props) {
  const [{ note, evict }, setForm] = useFormState(`drain/${id}`, { note: "", evict: false });
  const isShown = useIsShown();
  const act = async () => {
    if ((await drain({ id, evict, note: note.trim() || null })) && isShown()) onDone();
  };
  return (
    <Dialogue
      title={`Drain ${id}?`}
      isOpen
      onClose={onClose}
      actions={
        <Button className="button main" type="submit" onPress={() => void act()}>
          Drain
        </Button>
      }
    >
      <p>No new session starts on it; running sessions end by themselves.</p>
      <Text
        label="Reason"
        value={note}
        hint="Visible to all users."
        onChange={(next) => setForm({ note: next, evict })}
      />
      <Check
        text="Preempt its sessions, which are queued again"
        isOn={evict}
        onChange={(isOn) => setForm({ note, evict: isOn })}
      />
      <EffectOf input={{ drain: id, evict }} />
    </Dialogue>
  );
}
