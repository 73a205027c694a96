import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useColourScheme } from "../shell/theme";
import { drawBands, type Band } from "./bands";

interface Props {
  readonly label: string;
  /** Seconds since the epoch, ascending. */
  readonly times: readonly number[];
  readonly names: readonly string[];
  /** One row per name, as long as `times`; null is a gap. */
  readonly series: readonly (readonly (number | null)[])[];
  /** The top of the scale; by default from the data. */
  readonly top?: number;
  /** The width of a sample in seconds; samples are then drawn as bars. */
  readonly barS?: number;
  /** CSS tokens of the lines' colours; by default the holder colours in order. */
  readonly tokens?: readonly string[];
  readonly bands?: readonly Band[];
}

const HEIGHT = 130;

/** Lines or bars over time, for at least two samples. The legend is text. */
export default function Plot({ label, times, names, series, top, barS, tokens, bands }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(bands);
  shown.current = bands;
  const scheme = useColourScheme();
  const key = [...names, ...(tokens ?? [])].join("\n");
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const style = getComputedStyle(element);
    const axis = {
      stroke: style.color,
      grid: { stroke: style.borderColor, width: 1 },
      ticks: { show: false },
      font: `11px ${style.fontFamily}`,
    };
    const drawn = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { drag: { x: false, y: false } },
        // A single line is described by the label.
        legend: { live: false, show: names.length > 1 },
        hooks: {
          drawClear: [(self) => drawBands(self, shown.current ?? [], (token) => resolved(element, token))],
        },
        scales: {
          x: { range: (_plot, min, max) => [min, max + (barS ?? 0)] },
          y: { range: (_plot, _min, max) => [0, top ?? Math.max(1, max * 1.1)] },
        },
        axes: [
          { ...axis, size: 24, values: (_plot, splits) => splits.map((at) => clock(at, barS)), space: 70 },
          { ...axis, size: 40 },
        ],
        series: [
          {},
          ...names.map((label, index) => {
            const colour = resolved(element, tokens?.[index] ?? `--holder-${index % 10}`);
            return { label, stroke: colour, width: barS ? 0 : 1.5, points: { show: false }, ...bars(colour, barS) };
          }),
        ],
      },
      [[...times], ...series.map((row) => [...row])],
      element,
    );
    plot.current = drawn;
    const sizes = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      drawn.destroy();
    };
    // The effect below sets the data: a plot is created once per set of lines and colour scheme.
  }, [key, top, barS, scheme]);
  useEffect(() => {
    plot.current?.setData([[...times], ...series.map((row) => [...row])]);
  }, [times, series]);
  return (
    <figure aria-label={label}>
      <figcaption className="small">{label}</figcaption>
      <div ref={box} className="plot" />
    </figure>
  );
}

function bars(fill: string, barS: number | undefined): Partial<uPlot.Series> {
  const paths = barS ? uPlot.paths.bars?.({ size: [0.9, 60], align: 1 }) : undefined;
  return paths ? { paths, fill } : {};
}

function clock(seconds: number, barS: number | undefined): string {
  const date = new Date(seconds * 1000);
  if (barS && date.getHours() === 0) return date.toLocaleDateString([], { day: "numeric", month: "short" });
  const parts = { hour: "2-digit", minute: "2-digit", hour12: false } as const;
  return date.toLocaleTimeString([], barS ? parts : { ...parts, second: "2-digit" });
}

/** A CSS token as a colour for a canvas. */
function resolved(element: HTMLElement, token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
