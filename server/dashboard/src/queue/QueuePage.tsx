import { useMemo, useState } from "react";
import { Button, Input, SearchField } from "react-aria-components";
import { Link } from "wouter";
import { useLive } from "../api/live";
import { words } from "../format/words";
import { Choice } from "../parts/Choice";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { PRIORITIES } from "../session/actions";
import { ACTIVE, ENDED } from "../session/standing";
import { ActiveTable } from "./ActiveTable";
import { EndedTable } from "./EndedTable";
import { ANY, matching, NO_FILTERS, reasonsOf, type Filters } from "./filters";
import { loadQueue, loadSessions, PAGE_ROWS, type Page } from "./loading";
import { WaitingTable } from "./WaitingTable";

type View = "waiting" | "active" | "ended";
const VIEWS = [
  { id: "waiting", text: "Waiting" },
  { id: "active", text: "Running" },
  { id: "ended", text: "Ended" },
] as const;

/** The order in which sessions are served, and why each of them waits. */
export function QueuePage() {
  const [view, setView] = useState<View>("waiting");
  const [rows, setRows] = useState(PAGE_ROWS);
  const [filters, setFilters] = useState<Filters>(NO_FILTERS);
  const load = () => loadView(view, rows);
  const live = useLive(load, `${view}/${rows}`, { wants: () => true, everyMs: 10_000 });
  const page = live.data;
  const shown = useMemo(() => matching(page?.entries ?? [], filters), [page, filters]);
  const change = (part: Partial<Filters>) => setFilters((old) => ({ ...old, ...part }));

  return (
    <div className="stack">
      <div className="row">
        <h1>Queue</h1>
        <Segments label="Which sessions" value={view} options={VIEWS} onChange={setView} />
        <SearchField
          className="field search"
          aria-label="Filter by name, owner, project or id"
          value={filters.text}
          onChange={(text) => change({ text })}
        >
          <Input placeholder="Name, owner, project, id" />
        </SearchField>
        {view === "waiting" ? (
          <Choice
            label="Reason"
            isBare
            value={filters.reason}
            options={[ANY, ...reasonsOf(page?.entries ?? [])].map((id) => ({
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
          {page ? `${shown.length} of ${page.total}` : ""}
        </span>
      </div>
      <Faults of={live} />
      {page ? <Table view={view} page={page} shown={shown} refresh={live.refresh} /> : null}
      {page && view === "waiting" && page.entries.length < page.total ? (
        <Button className="button" onPress={() => setRows(rows + 4 * PAGE_ROWS)}>
          Show more
        </Button>
      ) : null}
    </div>
  );
}

function loadView(view: View, rows: number): Promise<Page> {
  return view === "waiting" ? loadQueue(rows) : loadSessions(view === "active" ? ACTIVE : ENDED);
}

interface TableProps {
  readonly view: View;
  readonly page: Page;
  readonly shown: Page["entries"];
  readonly refresh: () => void;
}

function Table({ view, page, shown, refresh }: TableProps) {
  if (page.total === 0) return <Nothing view={view} />;
  if (shown.length === 0) return <Empty title="Nothing that is loaded matches these filters" />;
  if (view === "waiting") return <WaitingTable entries={shown} refresh={refresh} />;
  return view === "active" ? (
    <ActiveTable entries={shown} refresh={refresh} />
  ) : (
    <EndedTable entries={shown} refresh={refresh} />
  );
}

const WORDS: Record<View, string> = {
  waiting: "Nobody waits",
  active: "Nothing runs",
  ended: "Nothing has ended yet",
};

function Nothing({ view }: { readonly view: View }) {
  return (
    <Empty title={WORDS[view]}>
      <p>
        What is submitted stands here with its place and the reason why it waits.{" "}
        <Link href="/submit">Submit a session</Link>, or send <code>create_session</code> from{" "}
        <a href="/graphiql">GraphiQL</a>.
      </p>
    </Empty>
  );
}
