import { Button, FieldError, Label, ListBox, ListBoxItem, Popover, Select, SelectValue } from "react-aria-components";

interface Props<T extends string> {
  readonly label: string;
  /** Whether the label is only for screen readers. */
  readonly isBare?: boolean;
  readonly value: T;
  readonly options: readonly { readonly id: T; readonly text: string }[];
  readonly onChange: (value: T) => void;
  readonly isDisabled?: boolean;
  /** The error message; undefined if the value is valid. */
  readonly wrong?: string | undefined;
}

/** A choice from a list. */
export function Choice<T extends string>({ label, isBare, value, options, onChange, isDisabled, wrong }: Props<T>) {
  return (
    <Select
      className={`field choice ${isBare ? "bare" : ""}`}
      {...(isBare ? { "aria-label": label } : {})}
      selectedKey={value}
      isDisabled={isDisabled ?? false}
      isInvalid={wrong !== undefined}
      validationBehavior="aria"
      onSelectionChange={(key) => key !== null && onChange(key as T)}
    >
      {isBare ? null : <Label className="label">{label}</Label>}
      <Button className="button">
        <SelectValue />
        <span aria-hidden="true">▾</span>
      </Button>
      <FieldError className="wrong">{wrong}</FieldError>
      <Popover className="popover">
        <ListBox className="options">
          {options.map((option) => (
            <ListBoxItem key={option.id} id={option.id} textValue={option.text} className="option">
              {option.text}
            </ListBoxItem>
          ))}
        </ListBox>
      </Popover>
    </Select>
  );
}
