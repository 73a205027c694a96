import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import { useLive } from "../api/live";
import { serverNow } from "../api/time";
import { Dialogue } from "../parts/Dialogue";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { keepSessions } from "../format/colours";
import { titleOf } from "../session/names";
import { BookedContext, bookedNow, bookedOf, type Booking } from "./booked";
import { choicesOf, chosenIn, chosenNodes, HEAT_FROM } from "./choosing";
import { Choosing } from "./Choosing";
import { DeviceCard } from "./DeviceCard";
import { groupingOf, keyOf, NamingContext, sharesOf, type Grouping, type Naming } from "./holders";
import { HoverCard } from "./HoverCard";
import { Legend } from "./Legend";
import { NoAgents } from "./NoAgents";
import { loadBooked } from "./loading";
import { NodeList } from "./NodeList";
import { freedOf, holdersOf, nodesOf, sessionsOn, totalsOf, type Node } from "./nodes";
import { Summary } from "./Summary";
import { Waiting } from "./Waiting";
import { useCluster } from "./watching";
import { Problems } from "./Problems";

const BOOKED_MS = 10_000;
const NO_BOOKINGS: readonly Booking[] = [];

const Gantt = lazy(() => import("./Gantt"));

/** The cluster: holders of devices, waiting sessions and problems. */
export function ClusterPage() {
  const cluster = useCluster();
  const agents = cluster.data;
  // Held devices become idle with time, so this is computed again with each answer, even an equal one.
  const nodes = useMemo(() => nodesOf(agents ?? [], serverNow()), [agents, cluster.at]);
  const [search, setSearch] = useSearchParams();
  const wanted = chosenIn(search);
  const shown = useMemo(() => chosenNodes(nodes, wanted), [nodes, search.toString()]);
  const choices = useMemo(() => choicesOf(nodes), [nodes]);
  const view = viewOf(search.get("view"), nodes);
  const set = (part: Readonly<Record<string, string>>) =>
    setSearch((old) => {
      const next = new URLSearchParams(old);
      for (const [name, value] of Object.entries(part)) {
        if (value) next.set(name, value);
        else next.delete(name);
      }
      return next;
    });
  const [chosen, setChosen] = useState<Grouping | null>(null);
  const grouping = chosen ?? groupingOf(nodes);
  const names = useTitles(nodes);
  const naming = useMemo<Naming>(() => ({ grouping, names }), [grouping, names]);
  const holders = useMemo(() => sharesOf(nodes, naming), [nodes, naming]);
  const devices = useMemo(
    () => new Map(nodes.flatMap((node) => node.devices).map((device) => [device.id, device])),
    [nodes],
  );
  const owners = useMemo(
    () => new Map((agents ?? []).flatMap((agent) => agent.devices.map((owned) => [owned.id, agent.id]))),
    [agents],
  );
  const bookings = useLive(loadBooked, "booked", { everyMs: BOOKED_MS }).data ?? NO_BOOKINGS;
  const booked = useMemo(() => bookedOf(nodes, bookings), [nodes, bookings]);
  useEffect(() => keepSessions(new Set(holdersOf(nodes).map((holder) => keyOf(holder, "session")))), [nodes]);
  const list = useRef<HTMLDivElement>(null);
  const [opened, setOpened] = useState<string | null>(null);
  const device = opened ? devices.get(opened) : undefined;

  if (!cluster.data) return <Faults of={cluster} />;
  return (
    <NamingContext value={naming}>
      <BookedContext value={booked}>
        <div className="stack">
          <h1 className="hidden">Cluster</h1>
          <Faults of={cluster} />
          <div className="overview">
            <Summary totals={totalsOf(nodes, bookedNow(booked))} freed={freedOf(nodes)} />
            <Waiting />
            <Problems nodes={nodes} />
          </div>
          <Legend shares={holders} grouping={grouping} onGrouping={setChosen}>
            <Segments label="View" value={view} options={VIEWS} onChange={(next) => set({ view: next })} />
            <Choosing chosen={wanted} choices={choices} onChange={set} />
          </Legend>
          <div ref={list} onClick={(event) => setOpened(tileAt(event.target))}>
            {nodes.length === 0 ? (
              <NoAgents />
            ) : shown.length === 0 ? (
              <Empty title="No device matches these filters" />
            ) : view === "history" ? (
              <Suspense fallback={<p className="quiet">Loading …</p>}>
                <Gantt nodes={shown} />
              </Suspense>
            ) : (
              <NodeList nodes={shown} isHeat={view === "heat"} />
            )}
          </div>
          <HoverCard of={list} find={(id) => devices.get(id)} agentOf={(id) => owners.get(id)} />
        </div>
        <Dialogue title={device?.name ?? ""} isOpen={device !== undefined} onClose={() => setOpened(null)}>
          {device ? (
            <DeviceCard
              device={device}
              agent={owners.get(device.id)}
              node={nodes.find((node) => node.devices.includes(device))?.id}
            />
          ) : null}
        </Dialogue>
      </BookedContext>
    </NamingContext>
  );
}

/** The titles of sessions that hold devices, by id. The map keeps its identity while its contents are equal. */
function useTitles(nodes: readonly Node[]): ReadonlyMap<string, string> {
  const titles = sessionsOn(nodes.flatMap((node) => node.devices)).map((id) => [id, titleOf(id)] as const);
  return useMemo(() => new Map(titles), [JSON.stringify(titles)]);
}

const VIEWS = [
  { id: "tiles", text: "Tiles" },
  { id: "heat", text: "Heat map" },
  { id: "history", text: "Last 24 h" },
] as const;
type View = (typeof VIEWS)[number]["id"];

/** The view in the address; else the one that fits the number of devices. */
function viewOf(text: string | null, nodes: readonly Node[]): View {
  const named = VIEWS.find(({ id }) => id === text)?.id;
  return named ?? (nodes.reduce((sum, node) => sum + node.devices.length, 0) >= HEAT_FROM ? "heat" : "tiles");
}

function tileAt(target: EventTarget): string | null {
  return (target as HTMLElement).closest<HTMLElement>(".tile")?.dataset["device"] ?? null;
}
