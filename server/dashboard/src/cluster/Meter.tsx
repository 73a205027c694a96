interface Props {
  readonly label: string;
  readonly value: number | null;
  readonly most: number;
  readonly text: (value: number) => string;
}

/** A reading as a thin bar and a number; a dash without a reading. */
export function Meter({ label, value, most, text }: Props) {
  const part = value === null || most <= 0 ? 0 : Math.min(1, value / most);
  return (
    <span className="meter">
      <span className="quiet">{label}</span>
      <span className="track">
        <span style={{ width: `${100 * part}%` }} />
      </span>
      <span className="figure">{value === null ? "—" : text(value)}</span>
    </span>
  );
}
