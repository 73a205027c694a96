import { useEffect, useMemo, useRef, useState } from "react";
import { Button } from "react-aria-components";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useColourScheme } from "../shell/theme";
import { drawBands, type Band } from "./bands";
import { clockOf, rangeOver, timeAt, withGaps, type Values } from "./series";

interface Props {
  readonly label: string;
  /** Seconds since the epoch, ascending; with `isSteps`, steps. */
  readonly times: readonly number[];
  /** Whether it is drawn over steps instead of time, with the scale of its values. */
  readonly isSteps?: boolean;
  readonly names: readonly string[];
  /** One row per name, as long as `times`; null is a gap. */
  readonly series: readonly Values[];
  /** The top of the scale; by default from the data. */
  readonly top?: number;
  /** The width of a sample in seconds; samples are then drawn as bars. */
  readonly barS?: number;
  /** CSS tokens of the lines' colours; by default the holder colours in order. */
  readonly tokens?: readonly string[];
  readonly bands?: readonly Band[];
  /** Values shown at the pointer, if they differ from the drawn ones, as for stacked bars. */
  readonly shown?: readonly Values[];
  /** Called with the seconds between which the user dragged; by default the plot zooms itself. */
  readonly onZoom?: (from: number, to: number) => void;
}

const HEIGHT = 130;
/** Lines from this number on are first shown as their range. */
const RANGE_FROM = 5;
const RANGE_NAMES = ["most", "mean", "least"];
const RANGE_TOKENS = ["--holder-4", "--accent", "--holder-4"];
const DECIMALS_BELOW = 100;

/** Lines or bars over time, for at least two samples: values at the pointer, drag to zoom, a legend of toggles. */
export default function Plot(props: Props) {
  const { label, times, names, series, barS, isSteps, onZoom } = props;
  const [asked, setRange] = useState<boolean | null>(null);
  const mayRange = !barS && names.length > 1;
  const isRange = mayRange && (asked ?? names.length >= RANGE_FROM);
  const rows = useMemo(() => {
    if (!isRange) return series;
    const { most, mean, least } = rangeOver(series);
    return [most, mean, least];
  }, [series, isRange]);
  const columns = useMemo(
    () => (barS || isSteps ? { times, series: rows } : withGaps({ times, series: rows })),
    [times, rows, barS, isSteps],
  );
  const drawn = isRange ? RANGE_NAMES : names;
  const tokens = isRange ? RANGE_TOKENS : drawn.map((_, index) => props.tokens?.[index] ?? `--holder-${index % 10}`);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const { box, at, isZoomed, unzoom } = useUplot({ ...props, ...columns, names: drawn, tokens, isRange, hidden });
  const read = isRange || !props.shown ? columns.series : props.shown;
  return (
    <figure aria-label={label}>
      <figcaption className="row small">
        <span>{label}</span>
        <span className="end row">
          {mayRange ? (
            <Button className="button plain" aria-pressed={isRange} onPress={() => setRange(!isRange)}>
              {isRange ? `Show all ${names.length}` : "Show the range"}
            </Button>
          ) : null}
          {isZoomed && !onZoom ? (
            <Button className="button plain" onPress={unzoom}>
              Zoom out
            </Button>
          ) : null}
        </span>
      </figcaption>
      <div ref={box} className="plot" />
      <div className="plot-legend row small" role="group" aria-label={`Lines of ${label}`}>
        <span className="plot-time quiet">
          {at === null ? "" : isSteps ? `step ${columns.times[at]}` : timeAt(columns.times[at] ?? 0, columns.times)}
        </span>
        {drawn.map((name, index) => (
          <Button
            key={name}
            className="plot-key"
            aria-pressed={!hidden.has(name)}
            onPress={() => setHidden(toggled(hidden, name))}
          >
            <i style={{ background: `var(${tokens[index]})` }} /> {name}
            {at === null ? null : (
              <b>{isSteps ? String(Number(read[index]?.[at]?.toPrecision(5))) : figureOf(read[index]?.[at])}</b>
            )}
          </Button>
        ))}
      </div>
    </figure>
  );
}

type Drawing = Omit<Props, "label"> & {
  readonly tokens: readonly string[];
  readonly isRange: boolean;
  readonly hidden: ReadonlySet<string>;
};

/** A plot in an element, the sample at the pointer, and whether it is zoomed. */
function useUplot({ times, names, series, top, barS, isSteps, tokens, bands, isRange, hidden, onZoom }: Drawing) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ bands, onZoom });
  latest.current = { bands, onZoom };
  const [at, setAt] = useState<number | null>(null);
  const [isZoomed, setZoomed] = useState(false);
  const scheme = useColourScheme();
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const resolve = (token: string) => resolved(element, token);
    const drawn = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
        legend: { show: false },
        hooks: {
          drawClear: [(self) => drawBands(self, latest.current.bands ?? [], resolve)],
          setCursor: [(self) => setAt(self.cursor.idx ?? null)],
          setSelect: [(self) => select(self, latest.current.onZoom, setZoomed)],
        },
        scales: {
          x: { time: !isSteps, range: (_plot, min, max) => [min, max + (barS ?? 0)] },
          y: isSteps ? {} : { range: (_plot, _min, max) => [0, top ?? Math.max(1, max * 1.1)] },
        },
        axes: axesOf(element, barS, isSteps),
        series: [{}, ...names.map((label, index) => seriesOf(label, resolve(tokens[index] ?? ""), barS))],
        bands: isRange ? [{ series: [1, 3], fill: resolve("--band") }] : [],
      },
      [[...times], ...series.map((row) => [...row])],
      element,
    );
    plot.current = drawn;
    names.forEach((name, index) => hidden.has(name) && drawn.setSeries(index + 1, { show: false }));
    const sizes = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      drawn.destroy();
    };
    // The effects below set the data and the toggles: a plot is created once per set of lines and colour scheme.
  }, [[...names, ...tokens].join("\n"), top, barS, scheme, isRange]);
  useEffect(() => {
    plot.current?.setData([[...times], ...series.map((row) => [...row])], !isZoomed);
    if (isZoomed) plot.current?.redraw();
  }, [times, series]);
  useEffect(() => {
    names.forEach((name, index) => plot.current?.setSeries(index + 1, { show: !hidden.has(name) }));
  }, [hidden]);
  const unzoom = () => {
    setZoomed(false);
    plot.current?.setData([[...times], ...series.map((row) => [...row])], true);
  };
  return { box, at, isZoomed, unzoom };
}

/** Zooms to the dragged range. */
function select(self: uPlot, onZoom: Props["onZoom"], setZoomed: (isZoomed: boolean) => void): void {
  const { left, width } = self.select;
  if (width < 4) return;
  const [from, to] = [self.posToVal(left, "x"), self.posToVal(left + width, "x")];
  self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (onZoom) onZoom(from, to);
  else {
    self.setScale("x", { min: from, max: to });
    setZoomed(true);
  }
}

function axesOf(element: HTMLElement, barS: number | undefined, isSteps: boolean | undefined): uPlot.Axis[] {
  const style = getComputedStyle(element);
  const axis = {
    stroke: style.color,
    grid: { stroke: style.borderColor, width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  return [
    isSteps
      ? { ...axis, size: 24, space: 70 }
      : {
          ...axis,
          size: 24,
          values: (_plot, splits, _axis, _space, stepS) => splits.map((at) => clockOf(at, barS ?? stepS)),
          space: 70,
        },
    { ...axis, size: isSteps ? 60 : 40 },
  ];
}

function seriesOf(label: string, colour: string, barS: number | undefined): uPlot.Series {
  return { label, stroke: colour, width: barS ? 0 : 1.5, points: { show: false }, ...bars(colour, barS) };
}

function bars(fill: string, barS: number | undefined): Partial<uPlot.Series> {
  const paths = barS ? uPlot.paths.bars?.({ size: [0.9, 60], align: 1 }) : undefined;
  return paths ? { paths, fill } : {};
}

function figureOf(value: number | null | undefined): string {
  if (value === null || value === undefined) return "—";
  return value.toFixed(Math.abs(value) < DECIMALS_BELOW && !Number.isInteger(value) ? 1 : 0);
}

function toggled(names: ReadonlySet<string>, name: string): ReadonlySet<string> {
  return new Set(names.has(name) ? [...names].filter((one) => one !== name) : [...names, name]);
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
