import { useSearchParams } from "wouter";
import { useLive } from "../api/live";
import { serverNow } from "../api/time";
import { loadQueueHistory } from "../history/loading";
import { Faults } from "../parts/Faults";
import { Segments } from "../parts/Segments";
import { FairShares } from "./FairShares";
import { Forecasts } from "./Forecasts";
import { loadFinished, loadUsageHistory } from "./loading";
import { OverTime } from "./OverTime";
import { PeriodPicker } from "./PeriodPicker";
import { QueuePlots } from "./QueuePlots";
import { faultOf, periodOf } from "./ranges";
import { Standing } from "./Standing";
import { Statements } from "./Statements";
import { Waits } from "./Waits";
import { WhoUses } from "./WhoUses";

const EVERY_MS = 60_000;
const BY = [
  { id: "user", text: "By user" },
  { id: "project", text: "By project" },
] as const;

/** Usage, utilization, waiting times and throughput; the period and the grouping are in the address. */
export default function UsagePage() {
  const [search, setSearch] = useSearchParams();
  const key = ["range", "from", "to"].map((name) => search.get(name) ?? "").join("/");
  const by = search.get("by") === "project" ? "project" : "user";
  const usage = useLive(() => loadUsageHistory(by, periodOf(search, serverNow())), `${by}/${key}`, {
    everyMs: EVERY_MS,
  });
  const queue = useLive(() => loadQueueHistory(periodOf(search, serverNow())), key, { everyMs: EVERY_MS });
  const past = useLive(loadFinished, "finished", { everyMs: EVERY_MS });
  const period = periodOf(search, serverNow());
  const fault = faultOf(search, serverNow());
  const set = (part: Readonly<Record<string, string>>, dropped: readonly string[] = []) =>
    setSearch((old) => {
      const next = new URLSearchParams(old);
      for (const name of dropped) next.delete(name);
      for (const [name, value] of Object.entries(part)) next.set(name, value);
      return next;
    });
  const span = (fromMs: number, toMs: number) =>
    set({ from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() }, ["range"]);
  const zoom = (from: number, to: number) => span(from * 1000, to * 1000);
  return (
    <div className="stack">
      <div className="row wide">
        <h1>Usage</h1>
        <PeriodPicker period={period} onRange={(range) => set({ range }, ["from", "to"])} onSpan={span} />
        <Segments label="Group by" value={by} options={BY} onChange={(next) => set({ by: next })} />
      </div>
      {fault ? (
        <p className="wrong" role="alert">
          {fault}
        </p>
      ) : null}
      <OverTime live={usage} by={by} period={period} onZoom={zoom} />
      <QueuePlots live={queue} period={period} onZoom={zoom} />
      <div className="session-parts">
        <Standing />
        <div className="stack">
          <Faults of={past} />
          {past.data?.sessions.length ? <Waits sessions={past.data.sessions} total={past.data.total} /> : null}
        </div>
      </div>
      <FairShares />
      <Statements />
      <WhoUses />
      <Forecasts />
    </div>
  );
}
