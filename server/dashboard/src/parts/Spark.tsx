import { sparkPath } from "./spark";

export interface SparkLine {
  readonly name: string;
  readonly values: readonly (number | null)[];
  /** CSS token of its colour. */
  readonly token: string;
  readonly isArea?: boolean;
}

interface Props {
  /** The contents and the period, for screen readers. */
  readonly label: string;
  readonly lines: readonly SparkLine[];
  /** The top of the scale; by default the highest value. */
  readonly top?: number;
}

const BOX = { width: 240, height: 34 };

/** A sparkline: lines without axes, with the numbers beside it. */
export function Spark({ label, lines, top }: Props) {
  const highest = top ?? Math.max(1, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
  return (
    <svg
      className="spark"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${BOX.width} ${BOX.height}`}
      preserveAspectRatio="none"
    >
      {lines.map(({ name, values, token, isArea }) => (
        <path
          key={name}
          d={sparkPath(values, { ...BOX, top: highest }, isArea)}
          style={isArea ? { fill: `var(${token})` } : { fill: "none", stroke: `var(${token})` }}
        />
      ))}
    </svg>
  );
}
