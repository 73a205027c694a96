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
  readonly type?: "text" | "datetime-local";
}

/** A text field of one or more lines, with its error message below. */
export function Text({ label, value, onChange, hint, wrong, rows, isRequired, placeholder, type }: Props) {
  const own = { placeholder: placeholder ?? "", autoComplete: "off", spellCheck: false };
  return (
    <TextField
      className="field"
      value={value}
      onChange={onChange}
      isInvalid={wrong !== undefined}
      isRequired={isRequired ?? false}
      type={type ?? "text"}
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
