import { useRef, useState } from "react";
import { useLive } from "../../api/live";
import { Empty } from "../../parts/Empty";
import { Faults } from "../../parts/Faults";
import { Segments } from "../../parts/Segments";
import { ShowMore } from "../../parts/ShowMore";
import { Text } from "../../parts/Text";
import { useSettled } from "../../parts/settled";
import { ChangeRows } from "./ChangeRows";
import { HeldBy } from "./HeldBy";
import { NO_FILTERS, type Filters } from "./filters";
import { loadChanges, PAGE_ROWS, type Changes } from "./loading";

const WHO = [
  { id: "people", text: "By people" },
  { id: "all", text: "Include the server's own" },
] as const;

/** Past changes, and past holders of devices. */
export function AuditTab() {
  const [filters, setFilters] = useState<Filters>(NO_FILTERS);
  const [rows, setRows] = useState(PAGE_ROWS);
  const wanted = useSettled(filters);
  const asked = JSON.stringify(wanted);
  const live = useLive(() => loadChanges(wanted, rows), `audit/${asked}/${rows}`, { everyMs: 5_000 });
  // While more rows are loading, those before stay.
  const last = useRef<{ readonly asked: string; readonly of: Changes } | null>(null);
  if (live.data) last.current = { asked, of: live.data };
  const found = last.current?.asked === asked ? last.current.of : null;
  const change = (part: Partial<Filters>) => setFilters((old) => ({ ...old, ...part }));
  return (
    <div className="stack">
      <HeldBy />
      <section className="stack" aria-label="Changes">
        <h2>Changes</h2>
        <div className="row wide at-end audit-filters">
          <Segments label="Actors" value={filters.who} options={WHO} onChange={(who) => change({ who })} />
          <Text
            label="Subject"
            value={filters.subject}
            onChange={(subject) => change({ subject })}
            placeholder="id of a session, agent, quota, …"
          />
          <Text
            label="Actor"
            value={filters.actor}
            onChange={(actor) => change({ actor })}
            placeholder="a user, or system:reaper"
          />
        </div>
        <Faults of={live} />
        {found?.changes.length === 0 ? (
          <Empty title="No change matches">
            <p>
              Older changes are archived; <code>aliquot audit log</code> searches archives, too.
            </p>
          </Empty>
        ) : null}
        {found?.changes.length ? <ChangeRows of={found.changes} /> : null}
        <ShowMore
          within="[aria-label='Past changes']"
          rows={found?.changes.length ?? 0}
          hasMore={found?.hasMore ?? false}
          onMore={() => setRows(rows + PAGE_ROWS)}
        />
      </section>
    </div>
  );
}
