import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import type { Live } from "../api/live";
import type { NamedDevice } from "./devices";
import type { Session } from "./loading";
import { Readings as Samples } from "./samples";

const Plot = lazy(() => import("../parts/Plot"));

interface Props {
  readonly session: Session;
  readonly devices: Live<readonly NamedDevice[]>;
}

/** How busy its devices are, from when this page was opened: the server keeps the last reading alone. */
export function Readings({ session, devices: live }: Props) {
  const held = useMemo(() => heldBy(session), [session]);
  const samples = useRef(new Samples());
  const [, draw] = useState(0);
  useEffect(() => {
    if (!live.data || !live.at) return;
    samples.current.add(
      live.at,
      live.data.filter((device) => held.has(device.id) && device.utilization_pct !== null),
    );
    draw(samples.current.count);
  }, [live.data, live.at, held]);
  const { names, times, busy, memory } = samples.current;
  if (times.length < 2) return null;
  return (
    <section className="panel stack" aria-label="Readings">
      <h2>
        Devices <span className="quiet small">from when this page was opened</span>
      </h2>
      <Suspense>
        <div className="plots">
          <Plot label="Busy, %" times={times} names={names} series={busy} top={100} />
          <Plot label="Memory in use, GiB" times={times} names={names} series={memory} />
        </div>
      </Suspense>
    </section>
  );
}

function heldBy(session: Session): Set<string> {
  return new Set(
    session.kernels
      .filter((kernel) => kernel.holds_devices)
      .flatMap((kernel) => kernel.resource_spec.flatMap((grant) => grant.devices.map((device) => device.device_id))),
  );
}
