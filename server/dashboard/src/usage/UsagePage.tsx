import { lazy, Suspense, useMemo } from "react";
import { Button } from "react-aria-components";
import { useLive } from "../api/live";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { csvOf, throughput } from "./figures";
import { loadFinished, loadUsage, type Used } from "./loading";
import { UsageTable } from "./UsageTable";
import { Waits } from "./Waits";

const Plot = lazy(() => import("../parts/Plot"));
const EVERY_MS = 10_000;
const ENDED = new Set(["session.completed", "session.failed", "session.canceled"]);

/** Who has used what, how long things waited, and how much got done. */
export default function UsagePage() {
  const usage = useLive(loadUsage, "usage", { everyMs: EVERY_MS });
  const past = useLive(loadFinished, "finished", { wants: (event) => ENDED.has(event.kind) });
  const sessions = past.data?.sessions;
  const hourly = useMemo(() => throughput(sessions ?? []), [sessions]);
  const series = useMemo(() => [hourly.counts], [hourly]);
  return (
    <div className="stack">
      <h1>Usage</h1>
      <section className="panel stack" aria-label="By user and project">
        <div className="row">
          <h2>By user and project</h2>
          <span className="quiet small">hours of a whole device, as the policy charges them</span>
          <Button className="button end" isDisabled={!usage.data?.length} onPress={() => save(usage.data ?? [])}>
            CSV
          </Button>
        </div>
        <Faults of={usage} />
        {usage.data?.length ? (
          <div className="scroll" tabIndex={0} role="region" aria-label="Usage">
            <UsageTable rows={usage.data} />
          </div>
        ) : null}
        {usage.data?.length === 0 ? (
          <Empty title="Nobody has used anything yet">
            <p>What sessions hold is counted here from their grant to their release.</p>
          </Empty>
        ) : null}
      </section>
      <Faults of={past} />
      {sessions?.length ? (
        <>
          <p className="quiet small">
            Of the newest {sessions.length} of {past.data?.total} sessions that have ended:
          </p>
          <div className="session-parts">
            <Waits sessions={sessions} />
            <section className="panel stack" aria-label="Throughput">
              <h2>Sessions that ended, by the hour</h2>
              <Suspense>
                <Plot label="Ended" times={hourly.times} names={NAMES} series={series} barS={3_600} />
              </Suspense>
            </section>
          </div>
        </>
      ) : null}
    </div>
  );
}

const NAMES = ["sessions"];

function save(rows: readonly Used[]): void {
  const address = URL.createObjectURL(new Blob([csvOf(rows)], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "usage.csv";
  link.click();
  URL.revokeObjectURL(address);
}
