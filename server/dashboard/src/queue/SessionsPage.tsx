import { useMemo, useRef } from "react";
import { Button, Input, SearchField } from "react-aria-components";
import { Link, useSearchParams } from "wouter";
import { useLive } from "../api/live";
import { whenDone } from "../session/actions";
import { useIdentity } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { useSettled } from "../parts/settled";
import { ActiveTable } from "./ActiveTable";
import { placeOf, searchOf, STATES, type Place, type View } from "./address";
import { BulkBar } from "./BulkBar";
import { EndedTable } from "./EndedTable";
import { FilterBar } from "./FilterBar";
import { ANY, hasAll, matching, NO_FILTERS, wantedOf, type Filters, type Wanted } from "./filters";
import { filterSessions, findSessions } from "./finding";
import { loadQueue, type Page, type Part } from "./loading";
import { More, unloadedOf } from "./More";
import { NotebookButton } from "./NotebookButton";
import { countOf, useParts } from "./parts";
import { useSelection, type Selection } from "./selection";
import { ViewsMenu } from "./ViewsMenu";
import { WaitingTable } from "./WaitingTable";

const VIEWS = [
  { id: "waiting", text: "Waiting" },
  { id: "active", text: "Running" },
  { id: "ended", text: "Ended" },
] as const;

/** Sessions that wait, with reasons, that run, and that have ended; all filters are in the address. */
export function SessionsPage() {
  const [search, setSearch] = useSearchParams();
  const place = placeOf(search);
  const { view, filters } = place;
  const asked = useSettled(askedOf(place));
  const parts = useParts(asked);
  const live = useFound(asked, parts.part);
  const last = useRef<{ asked: Asked; page: Page } | null>(null);
  if (live.data) last.current = { asked: JSON.parse(asked) as Asked, page: live.data };
  const page = last.current?.asked.view === view ? last.current.page : null;
  const shown = useMemo(() => matching(page?.entries ?? [], filters), [page, search.toString()]);
  const selection = useSelection(`${view}/${parts.part.after ?? ""}`);
  // Typing replaces the entry in the history, so that Back leads to the previous page.
  const go = (part: Partial<Place>, isTyped = false) =>
    setSearch(new URLSearchParams(searchOf({ ...place, ...part })), { replace: isTyped });
  const filter = (part: Partial<Filters>, isTyped?: boolean) => go({ filters: { ...filters, ...part } }, isTyped);
  const wanted = last.current?.asked.wanted ?? null;
  const isWhole = page !== null && hasAll(page, JSON.stringify(wanted), filters);

  return (
    <div className="stack">
      <div className="row">
        <h1>Sessions</h1>
        <Segments
          label="Sessions to show"
          value={view}
          options={VIEWS}
          onChange={(next) => go({ view: next, state: ANY, sort: "", filters: { ...filters, reason: ANY } })}
        />
        <SearchField
          className="field search"
          aria-label="Part of a name, id or tag; an owner, project or pool in full"
          value={filters.text}
          onChange={(text) => filter({ text }, true)}
        >
          <Input placeholder="Name, id, tag, owner, project, pool" data-shortcut="/" />
        </SearchField>
        <span className="quiet" role="status">
          {page ? countOf(page, shown.length) : ""}
        </span>
        <span className="end row">
          <NotebookButton />
          <ViewsMenu search={searchOf(place)} />
        </span>
      </div>
      <FilterBar place={place} entries={page?.entries ?? []} go={go} filter={filter} />
      <Faults of={live} />
      {page?.idle ? (
        <p className="small">
          <span className="badge fill-warn">quota</span> {page.idle}
        </p>
      ) : null}
      <BulkBar
        rows={shown.map(({ session }) => session)}
        selection={selection}
        refresh={live.refresh}
        unloaded={page ? unloadedOf(page, parts) : null}
      />
      {page ? (
        <Table
          view={view}
          page={page}
          shown={shown}
          isSearch={wanted !== null}
          isWhole={isWhole}
          selection={selection}
          refresh={live.refresh}
          onClear={() => go({ state: ANY, filters: NO_FILTERS })}
        />
      ) : null}
      {view === "waiting"
        ? page?.bounds?.map(({ pool, text }) => (
            <p key={pool} className="quiet small">
              {(page.bounds?.length ?? 0) > 1 ? `Pool ${pool}: ` : ""}
              {text}
            </p>
          ))
        : null}
      {page?.isCut ? (
        <p className="quiet small">More sessions match than are loaded: make the search more specific.</p>
      ) : null}
      {page && !page.isFound ? <More page={page} parts={parts} filters={filters} /> : null}
    </div>
  );
}

interface Asked {
  readonly view: View;
  readonly state: Place["state"];
  readonly sort: Place["sort"];
  readonly wanted: Wanted | null;
}

function askedOf({ view, state, sort, filters }: Place): string {
  return JSON.stringify({ view, state, sort, wanted: wantedOf(filters) } satisfies Asked);
}

function useFound(asked: string, part: Part) {
  const { view, state, sort, wanted } = JSON.parse(asked) as Asked;
  const states = state === ANY ? STATES[view] : [state];
  const isQueue = view === "waiting" && state === ANY && sort === "" && !wanted;
  const load = () => {
    if (isQueue) return loadQueue(part);
    return wanted?.word ? findSessions(states, wanted, sort) : filterSessions(states, wanted, sort, part);
  };
  const key = `${part.rows}/${part.after ?? ""}/${asked}`;
  const loaded = useRef("");
  // An action on many sessions would wait for the requests that its own events cause.
  const again = async () => {
    if (loaded.current === key) await whenDone();
    const page = await load();
    loaded.current = key;
    return page;
  };
  // Ended sessions are searched in the database, so not with every event.
  return useLive(again, key, { wants: () => !wanted || view !== "ended", everyMs: 10_000 });
}

interface TableProps {
  readonly view: View;
  readonly page: Page;
  /** The rows that match the filters. */
  readonly shown: Page["entries"];
  /** Whether the server has looked for sessions that match. */
  readonly isSearch: boolean;
  /** Whether the rows are all that match. */
  readonly isWhole: boolean;
  readonly selection: Selection;
  readonly refresh: () => void;
  readonly onClear: () => void;
}

function Table({ view, page, shown, isSearch, isWhole, selection, refresh, onClear }: TableProps) {
  if (page.entries.length === 0 && !isSearch) return <Nothing view={view} />;
  if (shown.length === 0)
    return (
      <Empty title={`No session matches these filters${isWhole ? "" : " among those loaded"}`}>
        <Button className="button" onPress={onClear}>
          Clear the filters
        </Button>
      </Empty>
    );
  if (view === "waiting") return <WaitingTable entries={shown} selection={selection} refresh={refresh} />;
  if (view === "active") return <ActiveTable entries={shown} selection={selection} refresh={refresh} />;
  return <EndedTable entries={shown} selection={selection} refresh={refresh} />;
}

const WORDS: Record<View, { readonly title: string; readonly text: string }> = {
  waiting: {
    title: "The queue is empty",
    text: "A session that cannot start immediately waits here, with its position and the reason.",
  },
  active: { title: "Nothing is running", text: "Sessions that hold GPUs are listed here, with the time they end by." },
  ended: { title: "Nothing has ended yet", text: "Ended sessions are listed here, with their exit codes." },
};

function Nothing({ view }: { readonly view: View }) {
  const canSubmit = maySubmit(useIdentity());
  return (
    <Empty title={WORDS[view].title}>
      <p>{WORDS[view].text}</p>
      {canSubmit ? (
        <>
          <p>
            <Link href="/submit">Submit a session</Link> here, send <code>create_session</code> from{" "}
            <a href="/graphiql">GraphiQL</a>, or use the shell:
          </p>
          <pre>aliquot session create -r cuda.device=1 -- python train.py</pre>
        </>
      ) : null}
    </Empty>
  );
}
