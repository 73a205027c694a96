import { useState } from "react";
import { Button } from "react-aria-components";
import type { CreateSessionInput } from "../generated/graphql";
import { Dialogue } from "../parts/Dialogue";
import { asCommand, asFile, asPython } from "./code";
import { copied } from "../parts/CopyButton";

const FORMS = {
  command: { words: "As a command", make: asCommand },
  Python: { words: "As Python", make: asPython },
  file: { words: "As a file", make: asFile },
} as const;
type Form = keyof typeof FORMS;
const ALL = Object.keys(FORMS) as Form[];

/** The request as a command, as Python and as a file for `aliquot run`, to copy. */
export function CodeButtons({
  request,
  forms = ALL,
}: {
  readonly request: CreateSessionInput | null;
  readonly forms?: readonly Form[];
}) {
  const [shown, setShown] = useState<Form | null>(null);
  const code = request === null || shown === null ? "" : FORMS[shown].make(request);
  return (
    <>
      {forms.map((one) => (
        <Button key={one} className="button" isDisabled={request === null} onPress={() => setShown(one)}>
          {FORMS[one].words}
        </Button>
      ))}
      <Dialogue
        title={shown === null ? "" : FORMS[shown].words}
        isOpen={shown !== null}
        onClose={() => setShown(null)}
        actions={
          <Button className="button main" onPress={() => void copied(code, "The text")}>
            Copy
          </Button>
        }
      >
        <pre className="code-text" tabIndex={0}>
          {code}
        </pre>
      </Dialogue>
    </>
  );
}
