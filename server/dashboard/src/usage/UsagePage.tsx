import { useState } from "react";
import { useSearchParams } from "wouter";
import { useLive } from "../api/live";
import { loadQueueHistory } from "../history/loading";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { loadFinished, loadUsageHistory } from "./loading";
import { OverTime } from "./OverTime";
import { QueuePlots } from "./QueuePlots";
import { rangeOf, RANGES, sinceOf, type Range } from "./ranges";
import { Standing } from "./Standing";
import { Waits } from "./Waits";

const EVERY_MS = 60_000;
const BY = [
  { id: "user", text: "By user" },
  { id: "project", text: "By project" },
] as const;

/** Usage, utilization, waiting times and throughput. */
export default function UsagePage() {
  const [search, setSearch] = useSearchParams();
  const range = rangeOf(search.get("range"));
  const [by, setBy] = useState<"user" | "project">("user");
  const usage = useLive(() => loadUsageHistory(by, range), `${by}/${range}`, { everyMs: EVERY_MS });
  const queue = useLive(
    () => loadQueueHistory(sinceOf(range, Date.now()), RANGES[range].s / RANGES[range].stepS),
    range,
    { everyMs: EVERY_MS },
  );
  const past = useLive(loadFinished, "finished", { everyMs: EVERY_MS });
  return (
    <div className="stack">
      <div className="row wide">
        <h1>Usage</h1>
        <Segments
          label="Period"
          value={range}
          options={Object.entries(RANGES).map(([id, { text }]) => ({ id: id as Range, text }))}
          onChange={(chosen) => setSearch({ range: chosen }, { replace: true })}
        />
        <Segments label="Group by" value={by} options={BY} onChange={setBy} />
      </div>
      <OverTime live={usage} by={by} range={range} />
      <QueuePlots live={queue} range={range} />
      <div className="session-parts">
        <Standing />
        <div className="stack">
          <Faults of={past} />
          {past.data?.sessions.length ? <Waits sessions={past.data.sessions} total={past.data.total} /> : null}
        </div>
      </div>
    </div>
  );
}
