import { Choice } from "./Choice";

interface NumberedProps {
  readonly label: string;
  readonly from: number;
  readonly count: number;
  readonly value: number;
  readonly onChange: (value: number) => void;
}

/** A choice of a number: of a rank, or of an attempt. */
export function Numbered({ label, from, count, value, onChange }: NumberedProps) {
  return (
    <Choice
      label={label}
      isBare
      value={String(value)}
      options={numbered(label, from, count)}
      onChange={(next) => onChange(Number(next))}
    />
  );
}

/** The options of such a choice. */
export function numbered(label: string, from: number, count: number): { id: string; text: string }[] {
  return Array.from({ length: count }, (_, step) => ({ id: String(from + step), text: `${label} ${from + step}` }));
}
