import { useState, type ReactNode } from "react";
import { Button } from "react-aria-components";
import { Dialogue } from "./Dialogue";

interface Props {
  readonly text: string;
  /** The name of the button, where the text does not say what it acts on. */
  readonly label?: string;
  readonly isPlain?: boolean;
  readonly question: string;
  /** The answer that acts. */
  readonly yes: string;
  readonly no?: string;
  readonly act: () => Promise<void>;
  /** What the action does. */
  readonly children: ReactNode;
}

/** A button that acts after a confirmation. */
export function ConfirmButton({ text, label = text, isPlain, question, yes, no = "Cancel", act, children }: Props) {
  const [isOpen, setOpen] = useState(false);
  const confirm = () => {
    setOpen(false);
    void act();
  };
  return (
    <>
      <Button className={`button ${isPlain ? "plain" : "danger"}`} aria-label={label} onPress={() => setOpen(true)}>
        {text}
      </Button>
      <Dialogue
        title={question}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        closing={no}
        actions={
          <Button className="button danger" onPress={confirm}>
            {yes}
          </Button>
        }
      >
        <p>{children}</p>
      </Dialogue>
    </>
  );
}
