import { ToggleButton, ToggleButtonGroup } from "react-aria-components";

interface Props<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly { readonly id: T; readonly text: string }[];
  readonly onChange: (value: T) => void;
}

/** A choice from two or three options, all visible. */
export function Segments<T extends string>({ label, value, options, onChange }: Props<T>) {
  return (
    <ToggleButtonGroup
      aria-label={label}
      className="segments"
      selectionMode="single"
      disallowEmptySelection
      selectedKeys={[value]}
      onSelectionChange={(keys) => {
        const [key] = [...keys];
        if (key !== undefined) onChange(key as T);
      }}
    >
      {options.map((option) => (
        <ToggleButton key={option.id} id={option.id} className="button">
          {option.text}
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}
