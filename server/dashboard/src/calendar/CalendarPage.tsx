import dayGrid from "@fullcalendar/daygrid";
import interaction from "@fullcalendar/interaction";
import FullCalendar from "@fullcalendar/react";
import timeGrid from "@fullcalendar/timegrid";
import { useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { Button } from "react-aria-components";
import { useSearchParams } from "wouter";
import { ask, change } from "../api/client";
import { useLive } from "../api/live";
import { serverNow } from "../api/time";
import { loadCluster } from "../cluster/loading";
import { isAccelerator, type Agent } from "../cluster/nodes";
import { quantity } from "../format/amounts";
import { useMinute } from "../format/clock";
import { colourClass } from "../format/colours";
import { nextHour } from "../format/local";
import { BookingEffectDocument, ExtendReservationDocument } from "../generated/graphql";
import { useIdentity } from "../identity/me";
import { mayOperate, maySubmit } from "../identity/rights";
import { Choice } from "../parts/Choice";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { useSettled } from "../parts/settled";
import { WithLinks } from "../queue/WithLinks";
import { carryOut } from "../session/actions";
import { BookDialogue, leftWindow, type Window } from "./BookDialogue";
import { bookedAtMost, effectText, entriesOf, type Entry, type Grouping } from "./entries";
import { EntryDialogue } from "./EntryDialogue";
import { FeedDialogue, madeFeed } from "./FeedDialogue";
import { ImportDialogue } from "./ImportDialogue";
import { loadCalendar } from "./loading";
import "./calendar.css";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const NARROW_PX = 600;
/** In narrower windows, simultaneous entries of a week have too little space. */
const WIDE_PX = 1200;
const EVERYONE = "*";
const NO_AGENTS: readonly Agent[] = [];
const VIEWS = [
  { id: "week", text: "Week" },
  { id: "day", text: "Day" },
] as const;
const GROUPINGS = [
  { id: "person", text: "By person" },
  { id: "node", text: "By node" },
] as const;
const HOW_TO_BOOK = "Drag over free time to book it. Drag the lower end of your own booking to change its end.";
const HOW_TO_READ = "Bookings, and running sessions until their expected ends. Click one for details.";
const NAMES = { week: "nextDays", day: "timeGridDay" } as const;
/** A week that begins with the chosen day, not with a Monday. */
const NEXT_DAYS = { nextDays: { type: "timeGrid", duration: { days: 7 } } } as const;
const LOCALE = Intl.DateTimeFormat().resolvedOptions().locale;
const HEADS = { weekday: "short", day: "2-digit", month: "short" } as const;

/** Bookings, and running sessions until their expected ends. A window is booked by dragging, or by the button. */
export default function CalendarPage() {
  const me = useIdentity();
  const calendar = useRef<FullCalendar>(null);
  const [search, setSearch] = useSearchParams();
  const [shown, setShown] = useState(() => ({ fromMs: serverNow() - 7 * DAY_MS, toMs: serverNow() + 8 * DAY_MS }));
  const [title, setTitle] = useState("");
  const [window, setWindow] = useState<Window | null>(leftWindow);
  const [open, setOpen] = useState<Entry | null>(null);
  const [isSubscribing, setSubscribing] = useState(() => madeFeed.ofUser() !== null);
  const [isImporting, setImporting] = useState(false);
  const [dragged, setDragged] = useState("");
  const [span, setSpan] = useState("");
  const delay = useDelay(useSettled(span));
  const by: Grouping = search.get("by") === "node" ? "node" : "person";
  const view = (search.get("view") ?? (globalThis.innerWidth < NARROW_PX ? "day" : "week")) === "day" ? "day" : "week";
  const only = search.get("only") ?? EVERYONE;
  const set = (part: Readonly<Record<string, string>>) =>
    setSearch((old) => new URLSearchParams({ ...Object.fromEntries(old), ...part }));
  const live = useLive(() => loadCalendar(shown.fromMs, shown.toMs), `${shown.fromMs}/${shown.toMs}`, {
    everyMs: 10_000,
  });
  const agents = useLive(loadCluster, "cluster", { everyMs: 60_000, isShared: true }).data ?? NO_AGENTS;
  const total = useMemo(() => gpusOf(agents), [agents]);
  const bookings = live.data?.bookings ?? [];
  const entries = useMemo(
    () => (live.data ? entriesOf(live.data, shown.toMs, serverNow(), hostsOf(agents)) : []),
    [live.data, shown.toMs, agents],
  );
  const groups = [...new Set(entries.flatMap((one) => groupsOf(one, by)))].sort();
  const visible = entries.filter((one) => only === EVERYONE || groupsOf(one, by).includes(only));
  // The address also changes by the navigation, and by Back and Forward.
  useEffect(() => calendar.current?.getApi().changeView(NAMES[view]), [view]);
  useNewDay(() => step("today"), calendar);
  const step = (act: "prev" | "next" | "today") => calendar.current?.getApi()[act]();
  const close = () => {
    setWindow(null);
    setOpen(null);
    setDragged("");
    setSpan("");
    calendar.current?.getApi().unselect();
    live.refresh();
  };
  const lengthen = async (entry: Entry, toMs: number, revert: () => void) => {
    const ends_at = new Date(toMs).toISOString();
    const act = async () => (await change(ExtendReservationDocument, { name: entry.id, ends_at })).extend_reservation;
    if (!(await carryOut("The booking ends then.", act))) revert();
    live.refresh();
  };
  return (
    <div className="stack calendar">
      <div className="row wide">
        <h1>Calendar</h1>
        <span className="row">
          <Button className="button" aria-label="Earlier" onPress={() => step("prev")}>
            ‹
          </Button>
          <Button className="button" onPress={() => step("today")}>
            Today
          </Button>
          <Button className="button" aria-label="Later" onPress={() => step("next")}>
            ›
          </Button>
        </span>
        <b aria-live="polite">{title}</b>
        <Segments label="View" value={view} options={VIEWS} onChange={(next) => set({ view: next })} />
        <Segments
          label="Group by"
          value={by}
          options={GROUPINGS}
          onChange={(next) => set({ by: next, only: EVERYONE })}
        />
        <Choice
          label={by === "node" ? "Node" : "Person"}
          isBare
          value={groups.includes(only) ? only : EVERYONE}
          options={[{ id: EVERYONE, text: by === "node" ? "All nodes" : "All people" }, ...groups.map(asOption)]}
          onChange={(next) => set({ only: next })}
        />
        {maySubmit(me) ? (
          <Button className="button end" onPress={() => setImporting(true)}>
            Import …
          </Button>
        ) : null}
        <Button className={`button ${maySubmit(me) ? "" : "end"}`} onPress={() => setSubscribing(true)}>
          Subscribe …
        </Button>
        {maySubmit(me) ? (
          <Button className="button main" onPress={() => setWindow(firstWindow())}>
            Book …
          </Button>
        ) : null}
      </div>
      <Faults of={live} />
      <p className="quiet" role="status">
        {dragged ? <WithLinks text={`${dragged} ${delay}`} /> : maySubmit(me) ? HOW_TO_BOOK : HOW_TO_READ}
      </p>
      <FullCalendar
        ref={calendar}
        plugins={[dayGrid, timeGrid, interaction]}
        views={NEXT_DAYS}
        initialView={NAMES[view]}
        headerToolbar={false}
        locale={LOCALE}
        dayHeaderFormat={HEADS}
        now={serverNow}
        nowIndicator
        allDaySlot={false}
        height="100%"
        scrollTime={`${String(Math.max(new Date(serverNow()).getHours() - 1, 0)).padStart(2, "0")}:00:00`}
        slotLabelFormat={{ hour: "2-digit", minute: "2-digit", hour12: false }}
        eventTimeFormat={{ hour: "2-digit", minute: "2-digit", hour12: false }}
        eventInteractive
        slotEventOverlap={false}
        eventMinHeight={20}
        eventMaxStack={stackMax(view)}
        moreLinkDidMount={({ el }) => makeButton(el)}
        viewDidMount={({ el }) => scrollsByKeys(el)}
        eventOrder={["rank", "start", "-duration", "title"]}
        selectable={maySubmit(me)}
        selectMirror
        unselectAuto={false}
        selectAllow={({ start, end }) => {
          const free = Math.max(total - bookedAtMost(bookings, start.getTime(), end.getTime()), 0);
          setDragged(`${free} of ${total} GPUs can be booked for this window.`);
          setSpan(JSON.stringify([Math.max(start.getTime(), serverNow()), end.getTime()]));
          return end.getTime() > Math.max(start.getTime(), serverNow()); // equal over an hour that the clocks skip
        }}
        select={({ start, end }) => setWindow({ fromMs: Math.max(start.getTime(), serverNow()), toMs: end.getTime() })}
        datesSet={({ start, end, view: now }) => {
          setTitle(now.title);
          setShown({ fromMs: start.getTime(), toMs: end.getTime() });
        }}
        events={visible.map((one) => ({
          id: one.id,
          title: `${one.title} · ${one.owner}${one.gpus ? ` · ${quantity("cuda.device", String(one.gpus))}` : ""}`,
          start: one.fromMs,
          end: one.toMs,
          classNames: [one.session ? "runs" : "booked", colourClass(groupsOf(one, by)[0] ?? "")],
          durationEditable: one.booking !== null && (one.owner === me?.name || mayOperate(me)),
          startEditable: false,
          rank: one.booking ? 0 : 1,
          hasEnd: one.hasEnd,
        }))}
        eventContent={({ event, timeText, isStart }) =>
          event.extendedProps["hasEnd"] || <Endless time={isStart ? timeText : ""} title={event.title} />
        }
        eventClick={({ event }) => setOpen(entries.find((one) => one.id === event.id) ?? null)}
        eventResize={({ event, revert }) => {
          const entry = entries.find((one) => one.id === event.id);
          if (entry && event.end) void lengthen(entry, event.end.getTime(), revert);
        }}
      />
      {window ? <BookDialogue window={window} onClose={close} /> : null}
      {isImporting ? <ImportDialogue onClose={() => (setImporting(false), close())} /> : null}
      {isSubscribing ? <FeedDialogue onClose={() => setSubscribing(false)} /> : null}
      {open ? <EntryDialogue entry={open} onClose={close} /> : null}
    </div>
  );
}

/** An entry as FullCalendar writes it, but without an end, and on later days without a start. */
function Endless({ time, title }: { readonly time: string; readonly title: string }) {
  return (
    <div className="fc-event-main-frame">
      {time ? <div className="fc-event-time">since {time.split(" - ")[0]}</div> : null}
      <div className="fc-event-title-container">
        <div className="fc-event-title fc-sticky">{title}</div>
      </div>
    </div>
  );
}

/** Which waiting sessions one GPU booked for a window would delay; "" until that is known. */
function useDelay(span: string): string {
  const load = async () => {
    if (span === "") return null;
    const [starts_at, ends_at] = (JSON.parse(span) as number[]).map((at) => new Date(at).toISOString());
    if (!starts_at || !ends_at) return null;
    const input = { name: "asked", starts_at, ends_at, gpus: 1 };
    return (await ask(BookingEffectDocument, { input })).reservation_effect;
  };
  const effect = useLive(load, `delay/${span}`).data;
  return effect ? `With one GPU: ${effectText(effect)}` : "";
}

/** Calls `follow` when a new day begins while the calendar begins with the day before: a page may be open for days. */
function useNewDay(follow: () => void, calendar: RefObject<FullCalendar | null>): void {
  const today = new Date(useMinute()).toDateString();
  const last = useRef(today);
  useEffect(() => {
    if (last.current === today) return;
    if (calendar.current?.getApi().view.activeStart.toDateString() === last.current) follow();
    last.current = today;
  }, [today]);
}

/** How many entries are beside each other; the others are behind a link. */
function stackMax(view: string): number {
  const width = globalThis.innerWidth;
  if (view === "day") return width < NARROW_PX ? 3 : 8;
  return width < WIDE_PX ? 1 : 2;
}

/** Lets keys scroll the hours, also while there is no entry to focus. They take the place of the body of the grid. */
function scrollsByKeys(view: HTMLElement): void {
  const hours = view.querySelector<HTMLElement>(".fc-scroller-liquid-absolute");
  if (hours === null) return;
  hours.tabIndex = 0;
  hours.role = "rowgroup";
  hours.ariaLabel = "Hours";
  hours.closest("tbody")?.setAttribute("role", "presentation");
}

/** Makes a link of FullCalendar a valid button: it has no role, and while it is closed an empty `aria-controls`. */
function makeButton(link: HTMLElement): void {
  link.setAttribute("role", "button");
  const drop = () => link.getAttribute("aria-controls") === "" && link.removeAttribute("aria-controls");
  new MutationObserver(drop).observe(link, { attributeFilter: ["aria-controls"] });
  drop();
}

const asOption = (name: string) => ({ id: name, text: name });

function groupsOf(entry: Entry, by: Grouping): readonly string[] {
  return by === "node" ? entry.nodes : [entry.owner];
}

function firstWindow(): Window {
  const fromMs = nextHour(serverNow());
  return { fromMs, toMs: fromMs + 2 * HOUR_MS };
}

function hostsOf(agents: readonly Agent[]): ReadonlyMap<string, string> {
  return new Map(agents.map((agent) => [agent.id, agent.hostname]));
}

/** Whole GPUs of the cluster, each once. */
function gpusOf(agents: readonly Agent[]): number {
  return new Set(
    agents.flatMap((agent) => agent.devices.filter(isAccelerator).map((one) => `${agent.node_id}/${one.id}`)),
  ).size;
}
