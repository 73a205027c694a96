import { useEffect, useMemo, useRef, useState } from "react";
import { useLive } from "../api/live";
import { Dialogue } from "../parts/Dialogue";
import { Faults } from "../parts/Faults";
import { keepSessions } from "../format/colours";
import { DeviceCard } from "./DeviceCard";
import { groupingOf, keyOf, NamingContext, sharesOf, type Grouping, type Naming } from "./holders";
import { HoverCard } from "./HoverCard";
import { Legend } from "./Legend";
import { loadCluster } from "./loading";
import { NoAgents } from "./NoAgents";
import { NodeList } from "./NodeList";
import { nodesOf, totalsOf, type Device } from "./nodes";
import { Summary } from "./Summary";
import { Waiting } from "./Waiting";
import { Wrong } from "./Wrong";

const READINGS_MS = 2_000;
const MOVES = new Set([
  "session.scheduled",
  "session.running",
  "session.completed",
  "session.failed",
  "session.canceled",
]);

/** Who holds what, what waits, what is wrong. */
export function ClusterPage() {
  const cluster = useLive(loadCluster, "cluster", {
    everyMs: READINGS_MS,
    isShared: true,
    wants: (event) => MOVES.has(event.kind) || !event.kind.startsWith("session."),
  });
  const agents = cluster.data?.agents;
  const nodes = useMemo(() => nodesOf(agents ?? [], Date.now()), [agents]);
  const [chosen, setChosen] = useState<Grouping | null>(null);
  const grouping = chosen ?? groupingOf(nodes);
  const names = cluster.data?.names;
  const naming = useMemo<Naming>(() => ({ grouping, names: new Map(names) }), [grouping, names]);
  const holders = useMemo(() => sharesOf(nodes, naming), [nodes, naming]);
  const devices = useMemo(
    () => new Map(nodes.flatMap((node) => node.devices).map((device) => [device.id, device])),
    [nodes],
  );
  const owners = useMemo(
    () => new Map((agents ?? []).flatMap((agent) => agent.devices.map((owned) => [owned.id, agent.id]))),
    [agents],
  );
  useEffect(() => keepSessions(new Set(holdersOf(devices, grouping))), [devices, grouping]);
  const list = useRef<HTMLDivElement>(null);
  const [opened, setOpened] = useState<string | null>(null);
  const device = opened ? devices.get(opened) : undefined;

  if (!cluster.data) return <Faults of={cluster} />;
  return (
    <NamingContext value={naming}>
      <div className="stack">
        <h1 className="hidden">Cluster</h1>
        <Faults of={cluster} />
        <div className="overview">
          <Summary totals={totalsOf(nodes)} />
          <Waiting />
          <Wrong nodes={nodes} />
        </div>
        <Legend shares={holders} grouping={grouping} onGrouping={setChosen} />
        <div ref={list} onClick={(event) => setOpened(tileAt(event.target))}>
          {nodes.length ? <NodeList nodes={nodes} /> : <NoAgents />}
        </div>
        <HoverCard of={list} find={(id) => devices.get(id)} agentOf={(id) => owners.get(id)} />
      </div>
      <Dialogue title={device?.name ?? ""} isOpen={device !== undefined} onClose={() => setOpened(null)}>
        {device ? <DeviceCard device={device} agent={owners.get(device.id)} /> : null}
      </Dialogue>
    </NamingContext>
  );
}

function holdersOf(devices: ReadonlyMap<string, Device>, grouping: Grouping): string[] {
  return [...devices.values()].flatMap((device) => device.holders.map((holder) => keyOf(holder, grouping)));
}

function tileAt(target: EventTarget): string | null {
  return (target as HTMLElement).closest<HTMLElement>(".tile")?.dataset["device"] ?? null;
}
