import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { useLive, type Live } from "../api/live";
import { Loading } from "../api/Together";
import { courseOf, joined, type Course } from "../history/course";
import { loadSessionHistory, type History } from "../history/loading";
import { Faults } from "../parts/Faults";
import { bandsOf } from "./bands";
import type { NamedDevice } from "./devices";
import type { Session } from "./loading";
import { Readings as Samples, type Metric } from "./samples";
import { titlesOf } from "./titles";

const Plot = lazy(() => import("../parts/Plot"));
const EVERY_MS = 60_000;
const GIB = 2 ** -30;

interface Props {
  readonly session: Session;
  readonly devices: Live<readonly NamedDevice[]>;
}

/** Readings of a session's devices while it held them, also after its end; refreshed every two seconds. */
export function Readings({ session, devices }: Props) {
  const holds = session.holds_devices;
  const past = useLive(
    () => loadSessionHistory(session.id),
    `${session.id}/${session.attempt}/${holds}`,
    holds ? { everyMs: EVERY_MS } : {},
  );
  const samples = useSamples(session, devices);
  const names = useMemo(() => titlesOf(devices.data ?? []), [devices.data]);
  const bands = useMemo(() => bandsOf(session), [session]);
  const history = past.data;
  // Users outside of its project may see the session without its readings: `Stats` says so.
  if (!history) return null;
  const plots = PLOTS.map((plot) => ({ ...plot, course: drawn(history, samples, plot.metric, plot.scale) }));
  // A session without GPUs has nothing to draw.
  if (plots.every(({ course }) => course.times.length < 2 || course.rows.size === 0)) return null;
  return (
    <section className="panel stack" aria-label="Readings">
      <div className="row">
        <h2>Devices</h2>
        <span className="quiet small">while it held them; tinted: starting</span>
      </div>
      <Faults of={past} />
      {history.warning ? <p className="note warn">{history.warning}</p> : null}
      <Suspense fallback={<Loading />}>
        <div className="plots">
          {plots.map(({ metric, label, top, course }) => (
            <Plot
              key={metric}
              label={label}
              times={course.times}
              names={[...course.rows.keys()].map(names)}
              series={[...course.rows.values()]}
              bands={bands}
              {...(top ? { top } : {})}
            />
          ))}
        </div>
      </Suspense>
    </section>
  );
}

const PLOTS: readonly { readonly metric: Metric; readonly label: string; readonly scale?: number; top?: number }[] = [
  { metric: "utilization", label: "Utilization, %", top: 100 },
  { metric: "memory_used", label: "Memory in use, GiB", scale: GIB },
  { metric: "power", label: "Power, W" },
];

function drawn(past: History, samples: Samples, metric: Metric, scale = 1): Course {
  return joined(courseOf(past, metric, scale), samples.courseOf(metric, scale));
}

/** Readings of the devices held, since this page was opened. */
function useSamples(session: Session, { data, at }: Live<readonly NamedDevice[]>): Samples {
  const held = useMemo(() => heldBy(session), [session]);
  const samples = useRef(new Samples());
  const [, draw] = useState(0);
  useEffect(() => {
    if (!data || !at || held.size === 0) return;
    samples.current.add(
      at,
      data.filter((device) => held.has(device.id) && device.utilization_pct !== null),
    );
    draw(at);
  }, [data, at, held]);
  return samples.current;
}

function heldBy(session: Session): Set<string> {
  return new Set(
    session.kernels
      .filter((kernel) => kernel.holds_devices)
      .flatMap((kernel) => kernel.resource_spec.flatMap((grant) => grant.devices.map((device) => device.device_id))),
  );
}
