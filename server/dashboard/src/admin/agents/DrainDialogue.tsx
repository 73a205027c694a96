import { useState } from "react";
import { Button } from "react-aria-components";
import { Check } from "../../parts/Check";
import { Dialogue } from "../../parts/Dialogue";
import { Text } from "../../parts/Text";
import { drain } from "./deeds";

interface Props {
  readonly id: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Drains an agent, with a word on why. */
export function DrainDialogue({ id, onClose, onDone }: Props) {
  const [note, setNote] = useState("");
  const [evict, setEvict] = useState(false);
  const act = async () => {
    if (await drain({ id, evict, note: note.trim() || null })) onDone();
  };
  return (
    <Dialogue
      title={`Drain ${id}?`}
      isOpen
      onClose={onClose}
      actions={
        <Button className="button main" onPress={() => void act()}>
          Drain
        </Button>
      }
    >
      <p>Nothing new is put on it; what runs there ends by itself.</p>
      <Text label="Why" value={note} hint="For everybody to read." onChange={setNote} />
      <Check text="Ask what runs there to make room, and wait again" isOn={evict} onChange={setEvict} />
    </Dialogue>
  );
}
