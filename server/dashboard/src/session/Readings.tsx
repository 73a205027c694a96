import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { SessionDevicesDocument } from "../generated/graphql";
import type { Session } from "./loading";
import { Readings as Samples } from "./samples";

const EVERY_MS = 2_000;
const Plot = lazy(() => import("../parts/Plot"));

/** How busy its devices are, from when this page was opened: the server keeps the last reading alone. */
export function Readings({ session }: { readonly session: Session }) {
  const agents = useMemo(() => [...new Set(session.kernels.map((kernel) => kernel.agent_id))].sort(), [session.kernels]);
  const held = useMemo(() => heldBy(session), [session]);
  const live = useLive(() => ask(SessionDevicesDocument, { agents }), agents.join(), { everyMs: EVERY_MS });
  const samples = useRef(new Samples());
  const [, draw] = useState(0);
  useEffect(() => {
    if (!live.data || !live.at) return;
    const devices = live.data.agents.edges.flatMap(({ node }) => node.devices.map((device) => ({ ...device, where: node.id })));
    samples.current.add(live.at, devices.filter((device) => held.has(device.id) && device.utilization_pct !== null));
    draw(samples.current.count);
  }, [live.data, live.at, held]);
  const { names, times, busy, memory } = samples.current;
  if (names.length === 0) return null;
  return (
    <section className="panel stack" aria-label="Readings">
      <h2>
        Devices <span className="quiet small">from when this page was opened</span>
      </h2>
      <Suspense>
        <Plot label="Busy, %" times={times} names={names} series={busy} top={100} />
        <Plot label="Memory in use, GiB" times={times} names={names} series={memory} />
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
