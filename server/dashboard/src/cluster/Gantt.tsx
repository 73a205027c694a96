import { useMemo, useRef, useState, type PointerEvent } from "react";
import { Button } from "react-aria-components";
import { Link, useSearchParams } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { serverNow } from "../api/time";
import { colourClass } from "../format/colours";
import { duration, moment } from "../format/times";
import { DeviceTimelineDocument } from "../generated/graphql";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { learnNames, titleOf } from "../session/names";
import { barsOf, ticksOf, type Bar, type Holding, type Span } from "./bars";
import { useNaming } from "./holders";
import type { Device, Node } from "./nodes";

const HOUR_MS = 3_600_000;
const PERIODS = [
  { id: "24", text: "24 h" },
  { id: "6", text: "6 h" },
  { id: "1", text: "1 h" },
] as const;
const EVERY_MS = 15_000;
/** The server's limit is 1,000. */
const DEVICES_MAX = 256;
const LANE_PX = 26;
/** Narrower bars, in percent, are too small to press: zoom in to follow them. */
const LINK_MIN = 2.5;
/** The same on a phone, where a link is 24 px wide to be hit by a finger. */
const LINK_MIN_PHONE = 10;
const DRAG_MIN = 0.01;

/** Who held which device when, in the last day; drag over a row of times to zoom. The period is in the address. */
export default function Gantt({ nodes }: { readonly nodes: readonly Node[] }) {
  const [search, setSearch] = useSearchParams();
  const devices = nodes
    .flatMap((node) => node.devices.map((device) => ({ device, node: node.hostname })))
    .slice(0, DEVICES_MAX);
  const hours = PERIODS.find(({ id }) => id === search.get("hours"))?.id ?? "24";
  const zoom = zoomOf(search);
  const ids = devices.map(({ device }) => device.id);
  const live = useLive(() => loadHoldings(ids, hours, zoom), `${ids.join()}/${hours}/${zoom?.from}/${zoom?.to}`, {
    everyMs: EVERY_MS,
  });
  const total = nodes.reduce((sum, node) => sum + node.devices.length, 0);
  const set = (part: Readonly<Record<string, string>>) =>
    setSearch((old) => {
      const next = new URLSearchParams(old);
      for (const name of ["hours", "from", "to"]) next.delete(name);
      for (const [name, value] of Object.entries(part)) next.set(name, value);
      return next;
    });
  return (
    <section className="panel stack gantt" aria-label="Who held which GPU">
      <div className="row">
        <Segments label="Period" value={zoom ? "" : hours} options={PERIODS} onChange={(id) => set({ hours: id })} />
        {zoom ? (
          <Button className="button" onPress={() => set({ hours })}>
            Zoom out
          </Button>
        ) : null}
        <span className="quiet small">
          {zoom
            ? `${moment(zoom.from)} to ${moment(zoom.to)}`
            : "Drag over the times to zoom. A bar leads to its session."}
        </span>
      </div>
      <Faults of={live} />
      {live.data ? (
        <Chart
          devices={devices}
          holdings={live.data.holdings}
          span={live.data.span}
          onZoom={({ from, to }) => set({ from: iso(from), to: iso(to) })}
        />
      ) : null}
      {total > devices.length ? (
        <p className="quiet small">
          The first {devices.length} of {total} devices; choose a pool, model or node for others.
        </p>
      ) : null}
    </section>
  );
}

interface ChartProps {
  readonly devices: readonly { readonly device: Device; readonly node: string }[];
  readonly holdings: readonly Holding[];
  readonly span: Span;
  readonly onZoom: (span: Span) => void;
}

function Chart({ devices, holdings, span, onZoom }: ChartProps) {
  const byDevice = useMemo(() => {
    const groups = new Map<string, Holding[]>();
    for (const one of holdings) groups.set(one.device_id, [...(groups.get(one.device_id) ?? []), one]);
    return groups;
  }, [holdings]);
  return (
    <div className="gantt-chart">
      <TimeAxis span={span} onZoom={onZoom} />
      {devices.map(({ device, node }, index) => (
        <Row
          key={device.id}
          title={devices[index - 1]?.node === node ? device.name : `${node} ${device.name}`}
          holdings={byDevice.get(device.id) ?? []}
          span={span}
        />
      ))}
    </div>
  );
}

function Row({ title, holdings, span }: { title: string; holdings: readonly Holding[]; span: Span }) {
  const { bars, lanes } = useMemo(() => barsOf(holdings, span), [holdings, span]);
  return (
    <>
      <span className="gantt-name">{title}</span>
      <div className="gantt-row" style={{ height: lanes * LANE_PX + 4 }}>
        {bars.map((bar) => (
          <HeldBar key={bar.holding.lease_id} bar={bar} />
        ))}
      </div>
    </>
  );
}

function HeldBar({ bar: { holding, left, width, lane } }: { readonly bar: Bar }) {
  const { grouping } = useNaming();
  const { user, session_id, since, until, amount, slot } = holding;
  const title = session_id ? titleOf(session_id) : "external allocation";
  const key = grouping === "user" ? user : (session_id ?? holding.lease_id);
  const lasted = duration((until ? Date.parse(until) : serverNow()) - Date.parse(since));
  const words = `${user}, ${title}: ${amount} ${slot}, ${moment(since)} to ${until ? moment(until) : "now"} (${lasted})`;
  const style = { left: `${left}%`, width: `max(3px, ${width}%)`, top: lane * LANE_PX + 2, height: LANE_PX - 2 };
  const className = `gantt-bar ${colourClass(key)}`;
  const text = width > 6 ? <span>{grouping === "user" ? user : title}</span> : null;
  return session_id && width >= (window.innerWidth < 640 ? LINK_MIN_PHONE : LINK_MIN) ? (
    <Link className={className} style={style} href={`/sessions/${session_id}`} title={words} aria-label={words}>
      {text}
    </Link>
  ) : (
    <span className={className} style={style} title={words}>
      {text}
    </span>
  );
}

/** The times; dragging chooses a part of the period. */
function TimeAxis({ span, onZoom }: { readonly span: Span; readonly onZoom: (span: Span) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<{ readonly begin: number; readonly end: number } | null>(null);
  const at = (event: PointerEvent) => {
    const { left, width } = box.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return Math.min(1, Math.max(0, (event.clientX - left) / width));
  };
  const place = (part: number) => span.from + part * (span.to - span.from);
  const finish = () => {
    setDrag(null);
    if (!drag || Math.abs(drag.end - drag.begin) < DRAG_MIN) return;
    onZoom({ from: place(Math.min(drag.begin, drag.end)), to: place(Math.max(drag.begin, drag.end)) });
  };
  const isLong = span.to - span.from > 12 * HOUR_MS;
  return (
    <>
      <span />
      <div
        ref={box}
        className="gantt-axis"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag({ begin: at(event), end: at(event) });
        }}
        onPointerMove={(event) => setDrag((old) => (old ? { ...old, end: at(event) } : null))}
        onPointerUp={finish}
        onPointerCancel={() => setDrag(null)}
      >
        {ticksOf(span, window.innerWidth < 640 ? 3 : 8).map((tick) => (
          <span key={tick} style={{ left: `${(100 * (tick - span.from)) / (span.to - span.from)}%` }}>
            {timeOf(tick, isLong, span.to - span.from < HOUR_MS / 4)}
          </span>
        ))}
        {drag ? (
          <i
            style={{
              left: `${100 * Math.min(drag.begin, drag.end)}%`,
              width: `${100 * Math.abs(drag.end - drag.begin)}%`,
            }}
          />
        ) : null}
      </div>
    </>
  );
}

function timeOf(at: number, isLong: boolean, hasSeconds: boolean): string {
  const date = new Date(at);
  if (isLong && date.getHours() === 0 && date.getMinutes() === 0)
    return date.toLocaleDateString([], { day: "numeric", month: "short" });
  const seconds = hasSeconds ? ({ second: "2-digit" } as const) : {};
  return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...seconds });
}

function zoomOf(search: URLSearchParams): Span | null {
  const [from, to] = [search.get("from"), search.get("to")].map((text) => Date.parse(text ?? ""));
  return from !== undefined && to !== undefined && from < to ? { from, to } : null;
}

async function loadHoldings(ids: readonly string[], hours: string, zoom: Span | null) {
  const now = serverNow();
  const span = zoom ?? { from: now - Number(hours) * HOUR_MS, to: now };
  if (ids.length === 0) return { span, holdings: [] };
  const { device_timeline: holdings } = await ask(DeviceTimelineDocument, {
    devices: ids,
    since: iso(span.from),
    until: zoom ? iso(span.to) : null,
  });
  await learnNames(holdings.flatMap(({ session_id }) => session_id ?? []));
  return { span, holdings };
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
