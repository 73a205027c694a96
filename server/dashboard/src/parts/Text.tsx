import type { ClipboardEvent } from "react";
import { FieldError, Input, Label, Text as Hint, TextArea, TextField } from "react-aria-components";

interface Props {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint?: string | undefined;
  /** The error message; undefined if the value is valid. */
  readonly wrong?: string | undefined;
  readonly rows?: number;
  readonly isRequired?: boolean;
  readonly placeholder?: string;
  /** The type of the browser's control. */
  readonly type?: "text" | "datetime-local" | "password";
  readonly onPaste?: ((event: ClipboardEvent) => void) | undefined;
}

/** A text field of one or more lines, with its error message below. */
export function Text({ label, value, onChange, hint, wrong, rows, isRequired, placeholder, type, onPaste }: Props) {
  // "new-password": despite "off", browsers would fill in the password that the user signs in with.
  const autoComplete = type === "password" ? "new-password" : "off";
  const own = { placeholder: placeholder ?? "", autoComplete, spellCheck: false };
  return (
    <TextField
      className="field"
      value={value}
      onChange={onChange}
      isInvalid={wrong !== undefined}
      isRequired={isRequired ?? false}
      type={type ?? "text"}
      {...(onPaste && { onPaste })}
      validationBehavior="aria"
    >
      <Label>{label}</Label>
      {rows ? <TextArea rows={rows} {...own} /> : <Input {...own} />}
      {hint && !wrong ? (
        <Hint slot="description" className="hint">
          {hint}
        </Hint>
      ) : null}
      <FieldError className="wrong">{wrong}</FieldError>
    </TextField>
  );
}
