import { useLive } from "../api/live";
import { plain } from "../format/amounts";
import { courseOf, type Values } from "../history/course";
import { ago, loadQueueHistory, type QueueHistory } from "../history/loading";
import { Spark } from "../parts/Spark";

const HOURS = 6;
const POINTS = 73;
const LEAST = 13;
/** The interval of the measurements. */
const EVERY_MS = 10_000;

/** Devices held, held but idle, and tasks waiting in the last hours. */
export function Trend() {
  const live = useLive(
    () => loadQueueHistory({ since: ago(HOURS * 3_600_000), until: null, points: POINTS }),
    "trend",
    { everyMs: EVERY_MS },
  );
  if (!live.data) return null;
  const { held, idle, total, waiting, waitingMost } = trendOf(live.data);
  // No measurements yet: the server has just started.
  if (total.every((value) => value === null)) return null;
  const hours = Math.max(1, Math.round((held.length * live.data.step) / 3_600));
  return (
    <div className="trend">
      <figure>
        <Spark
          label={`Held in the last ${hours} h, last mean: ${last(held)} of ${last(total)} devices, ${last(idle)} idle`}
          top={Math.max(1, ...total.map((value) => value ?? 0))}
          lines={[
            { name: "held", values: held, token: "--spark", isArea: true },
            { name: "idle", values: idle, token: "--spark-warn", isArea: true },
          ]}
        />
        <figcaption className="quiet small">
          held, <span className="warn">idle</span>, last {hours} h
        </figcaption>
      </figure>
      <figure>
        <Spark
          label={`Tasks waiting in the last ${hours} h, at most ${waitingMost}`}
          lines={[{ name: "waiting", values: waiting, token: "--spark", isArea: true }]}
        />
        <figcaption className="quiet small">tasks waiting, at most {waitingMost}</figcaption>
      </figure>
    </div>
  );
}

function trendOf(history: QueueHistory) {
  const metric = (name: string): Values => [...courseOf(history, name).rows.values()][0] ?? [];
  const first = metric("gpus_total").findIndex((value) => value !== null);
  // In a young cluster, leave out the time before its first measurement, but show at least an hour.
  const from = Math.max(0, Math.min(first < 0 ? Infinity : first, history.points - LEAST));
  const values = (name: string) => metric(name).slice(from);
  return {
    held: values("gpus_held"),
    idle: values("gpus_held_idle"),
    total: values("gpus_total"),
    waiting: values("pending"),
    // The mean of a few minutes would hide the peak.
    waitingMost: Math.max(
      0,
      ...mostOf(history, "pending")
        .slice(from)
        .map((value) => value ?? 0),
    ),
  };
}

function mostOf(history: QueueHistory, name: string): Values {
  return history.series.find(({ metric }) => metric === name)?.maximum ?? [];
}

function last(values: Values): string {
  const value = values.findLast((one) => one !== null);
  return value === undefined || value === null ? "unknown" : plain(value);
}
