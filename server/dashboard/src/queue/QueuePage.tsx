import { useMemo, useRef, useState } from "react";
import { Button, Input, SearchField } from "react-aria-components";
import { Link } from "wouter";
import { useLive } from "../api/live";
import { words } from "../format/words";
import { Choice } from "../parts/Choice";
import { useIdentity } from "../identity/me";
import { maySubmit } from "../identity/rights";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { useSettled } from "../parts/settled";
import { PRIORITIES } from "../session/actions";
import { ACTIVE, ENDED, WAITING } from "../session/standing";
import { ActiveTable } from "./ActiveTable";
import { EndedTable } from "./EndedTable";
import { ANY, hasAll, matching, NO_FILTERS, reasonsOf, wantedOf, type Filters, type Wanted } from "./filters";
import { findSessions } from "./finding";
import { loadQueue, loadSessions, PAGE_ROWS, type Page } from "./loading";
import { WaitingTable } from "./WaitingTable";

type View = "waiting" | "active" | "ended";
const VIEWS = [
  { id: "waiting", text: "Waiting" },
  { id: "active", text: "Running" },
  { id: "ended", text: "Ended" },
] as const;

const STATES = { waiting: WAITING, active: ACTIVE, ended: ENDED } as const;
/** Maximum rows of the queue: all of them are queried again with every event. */
const ROWS_MAX = 2_000;

/** Sessions that wait, with reasons, that run, and that have ended. */
export function QueuePage() {
  const [view, setView] = useState<View>("waiting");
  const [rows, setRows] = useState(PAGE_ROWS);
  const [filters, setFilters] = useState<Filters>(NO_FILTERS);
  const asked = useSettled(JSON.stringify(wantedOf(filters)));
  const wanted = JSON.parse(asked) as Wanted | null;
  const load = () => (wanted ? findSessions(STATES[view], wanted) : loadView(view, rows));
  // Ended sessions are searched in the database, so not with every event.
  const live = useLive(load, `${view}/${rows}/${asked}`, {
    wants: () => !wanted || view !== "ended",
    everyMs: 10_000,
  });
  const last = useRef<{ view: View; asked: string; page: Page } | null>(null);
  if (live.data) last.current = { view, asked, page: live.data };
  const page = last.current?.view === view ? last.current.page : null;
  const shown = useMemo(() => matching(page?.entries ?? [], filters), [page, filters]);
  const change = (part: Partial<Filters>) => setFilters((old) => ({ ...old, ...part }));

  return (
    <div className="stack">
      <div className="row">
        <h1>Queue</h1>
        <Segments label="Sessions to show" value={view} options={VIEWS} onChange={setView} />
        <SearchField
          className="field search"
          aria-label="Part of a name or id; an owner, project or pool in full"
          value={filters.text}
          onChange={(text) => change({ text })}
        >
          <Input placeholder="Name, id, owner, project, pool" />
        </SearchField>
        {view === "waiting" ? (
          <Choice
            label="Reason"
            isBare
            value={filters.reason}
            options={[...new Set([ANY, filters.reason, ...reasonsOf(page?.entries ?? [])])].map((id) => ({
              id,
              text: id === ANY ? "any reason" : words(id),
            }))}
            onChange={(reason) => change({ reason })}
          />
        ) : null}
        <Choice
          label="Priority"
          isBare
          value={filters.priority}
          options={[ANY, ...PRIORITIES].map((id) => ({ id, text: id === ANY ? "any priority" : id }))}
          onChange={(priority) => change({ priority })}
        />
        <span className="quiet end" role="status">
          {page ? countOf(page, shown.length) : ""}
        </span>
      </div>
      <Faults of={live} />
      {page?.idle ? (
        <p className="small">
          <span className="badge fill-warn">quota</span> {page.idle}
        </p>
      ) : null}
      {page ? (
        <Table
          view={view}
          page={page}
          shown={shown}
          isWhole={hasAll(page, last.current?.asked ?? "", filters)}
          refresh={live.refresh}
        />
      ) : null}
      {page?.isCut ? (
        <p className="quiet small">More sessions match than are loaded: make the search more specific.</p>
      ) : null}
      {page && view === "waiting" && page.entries.length < page.total ? (
        <div className="row">
          <Button className="button" onPress={() => setRows(rows + 4 * PAGE_ROWS)}>
            Show more
          </Button>
          {filters.reason === ANY ? null : (
            <>
              {page.entries.length < ROWS_MAX ? (
                <Button className="button" onPress={() => setRows(Math.min(page.total, ROWS_MAX))}>
                  Load {page.total > ROWS_MAX ? `the first ${ROWS_MAX}` : "all"}
                </Button>
              ) : null}
              <span className="quiet small">
                The reason filter covers the first {page.entries.length} of {page.total}.
              </span>
            </>
          )}
        </div>
      ) : null}
    </div>
  );
}

function countOf(page: Page, shown: number): string {
  return page.isFound ? `${shown}${page.isCut ? " or more" : ""} found` : `${shown} of ${page.total}`;
}

function loadView(view: View, rows: number): Promise<Page> {
  return view === "waiting" ? loadQueue(rows) : loadSessions(STATES[view]);
}

interface TableProps {
  readonly view: View;
  readonly page: Page;
  readonly shown: Page["entries"];
  readonly isWhole: boolean;
  readonly refresh: () => void;
}

function Table({ view, page, shown, isWhole, refresh }: TableProps) {
  if (page.total === 0 && !page.isFound) return <Nothing view={view} />;
  if (shown.length === 0) {
    return <Empty title={`No ${isWhole ? "" : "loaded "}session matches these filters`} />;
  }
  if (view === "waiting") return <WaitingTable entries={shown} refresh={refresh} />;
  return view === "active" ? (
    <ActiveTable entries={shown} refresh={refresh} />
  ) : (
    <EndedTable entries={shown} refresh={refresh} />
  );
}

const WORDS: Record<View, { readonly title: string; readonly text: string }> = {
  waiting: {
    title: "The queue is empty",
    text: "A session that cannot start at once waits here, with its position and the reason.",
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
