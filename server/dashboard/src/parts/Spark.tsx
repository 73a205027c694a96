import { sparkPath } from "./spark";

export interface SparkLine {
  readonly name: string;
  readonly values: readonly (number | null)[];
  /** The name of its colour. */
  readonly token: string;
  readonly isArea?: boolean;
}

interface Props {
  /** What is drawn and of which time, for those who do not see it. */
  readonly label: string;
  readonly lines: readonly SparkLine[];
  /** The top of the scale; without it, the highest of the values. */
  readonly top?: number;
}

const BOX = { width: 240, height: 34 };

/** Lines without axes: which way it goes. The numbers stand beside it. */
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
