import { useState, type ClipboardEvent } from "react";
import { Button } from "react-aria-components";
import { change } from "../../api/client";
import { SetSecretDocument } from "../../generated/graphql";
import { Dialogue } from "../../parts/Dialogue";
import { useFormState } from "../../parts/formState";
import { Text } from "../../parts/Text";
import { carryOut } from "../../session/actions";
import { fileValue, nameWrong, NO_VALUE, pastedValue, valueWrong, type Value } from "./secrets";
import { useIsShown } from "../../parts/shown";

interface Props {
  /** The name of the secret whose value is replaced; empty for a new one. */
  readonly replaced: string;
  /** The names of the secrets that the user has. */
  readonly stored: readonly string[];
  readonly onClose: () => void;
}

/** Stores a secret. Its value exists only in this dialogue and in the request, so only its name outlives a sign-in. */
export function SecretDialogue({ replaced, stored, onClose }: Props) {
  const [typed, setTyped] = useFormState("secret-name", "");
  const [value, setValue] = useState<Value>(NO_VALUE);
  const [unread, setUnread] = useState<string>();
  const name = replaced || typed.trim();
  const isKnown = stored.includes(name);
  const wrong = unread ?? valueWrong(value);
  const take = (next: Value | null, otherwise: string) => {
    setValue(next ?? NO_VALUE);
    setUnread(next ? undefined : otherwise);
  };
  const choose = async (file: File | undefined) => {
    if (!file) return;
    try {
      const otherwise = `${file.name} is not UTF-8 text; encode it first, for example with base64.`;
      take(fileValue(file.name, await file.arrayBuffer()), otherwise);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      take(null, "The browser cannot read this file. Choose it again.");
    }
  };
  const isShown = useIsShown();
  const store = async () => {
    const done = isKnown ? `The secret ${name} has a new value.` : `The secret ${name} is stored.`;
    const isStored = await carryOut(done, async () => {
      return (await change(SetSecretDocument, { name, value: value.text })).set_secret;
    });
    if (isStored && isShown()) onClose();
  };
  return (
    <Dialogue
      title={replaced ? `Replace ${replaced}` : "New secret"}
      isOpen
      onClose={onClose}
      closing="Cancel"
      actions={
        <Button
          className="button main"
          type="submit"
          isDisabled={name === "" || value.text === "" || wrong !== undefined || nameWrong(name) !== undefined}
          onPress={() => void store()}
        >
          {isKnown ? "Replace" : "Store"}
        </Button>
      }
    >
      {replaced ? (
        <p>Sessions that start from now on receive the new value; running ones keep the old one.</p>
      ) : (
        <Text
          label="Name"
          value={typed}
          hint={isKnown ? "You have a secret of this name; its value is replaced." : "Like HUB_TOKEN."}
          wrong={nameWrong(name)}
          onChange={setTyped}
          isRequired
        />
      )}
      <ValueField value={value} wrong={wrong} onChange={(next) => take(next, "")} />
      <label className="stack">
        Or a text file, read unchanged
        <input
          type="file"
          // Cleared, because the browser does not report that the same file, corrected meanwhile, was chosen again.
          onClick={(event) => (event.currentTarget.value = "")}
          onChange={(event) => void choose(event.target.files?.[0])}
        />
      </label>
    </Dialogue>
  );
}

interface ValueProps {
  readonly value: Value;
  readonly wrong: string | undefined;
  readonly onChange: (value: Value) => void;
}

/** A password field; for a file or pasted lines, which it would join to one line, their source instead. */
function ValueField({ value, wrong, onChange }: ValueProps) {
  const paste = (event: ClipboardEvent) => {
    const lines = pastedValue(event.clipboardData.getData("text"));
    if (!lines) return;
    event.preventDefault();
    onChange(lines);
  };
  if (value.source === null)
    return (
      <Text
        label="Value"
        type="password"
        value={value.text}
        wrong={wrong}
        hint="It is not shown again: keep a copy where only you can read it."
        onChange={(text) => onChange({ text, source: null })}
        onPaste={paste}
        isRequired
      />
    );
  return (
    <div className="field">
      <span className="label">Value</span>
      <div className="row">
        <span>{value.source}</span>
        <Button className="button" onPress={() => onChange(NO_VALUE)}>
          Type it instead
        </Button>
      </div>
      {wrong ? (
        <span className="wrong" role="alert">
          {wrong}
        </span>
      ) : null}
    </div>
  );
}
