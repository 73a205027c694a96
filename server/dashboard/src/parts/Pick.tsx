interface Props<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly T[];
  readonly onChange: (value: T) => void;
}

/** A choice in a table row: the browser's own control, as there may be hundreds. */
export function Pick<T extends string>({ label, value, options, onChange }: Props<T>) {
  return (
    <select className="pick" aria-label={label} value={value} onChange={(event) => onChange(event.target.value as T)}>
      {options.map((option) => (
        <option key={option} value={option}>
          {option}
        </option>
      ))}
    </select>
  );
}
