interface Props<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly T[];
  readonly onChange: (value: T) => void;
}

/** One of a few, in a row of a table: the browser's own control, of which there may be hundreds. */
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
