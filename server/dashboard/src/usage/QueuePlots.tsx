import { lazy, Suspense } from "react";
import type { Live } from "../api/live";
import { courseOf } from "../history/course";
import type { History } from "../history/loading";
import { Faults } from "../parts/Faults";
import type { Period } from "./ranges";

const Plot = lazy(() => import("../parts/Plot"));

interface Props {
  readonly live: Live<History>;
  readonly period: Period;
  readonly onZoom: (from: number, to: number) => void;
}

/** Length of the queue, waiting times and throughput. */
export function QueuePlots({ live, period, onZoom }: Props) {
  const history = live.data;
  if (!history) return <Faults of={live} />;
  const plot = (metrics: readonly string[], scale = 1) => {
    const rows = metrics.map((metric) => courseOf(history, metric, scale));
    return { times: rows[0]?.times ?? [], series: rows.map((course) => [...course.rows.values()][0] ?? []) };
  };
  const bars = { barS: history.step, onZoom };
  return (
    <section className="panel stack" aria-label="The queue over time">
      <div className="row">
        <h2>Queue per {period.each}</h2>
        <Faults of={live} />
      </div>
      <Suspense>
        <div className="plots">
          <Plot label="Waiting tasks, mean" names={WAITING} tokens={TOKENS[0]} {...plot(["pending"])} {...bars} />
          <Plot
            label="Waiting time of started sessions, mean, min"
            names={WAITED}
            tokens={TOKENS[1]}
            {...plot(["wait_mean"], 1 / 60)}
            {...bars}
          />
          <Plot label="Ended sessions" names={ENDED} tokens={TOKENS[2]} {...plot(["ended"])} {...bars} />
        </div>
      </Suspense>
    </section>
  );
}

const WAITING = ["waiting"];
const WAITED = ["waited"];
const ENDED = ["ended"];
const TOKENS = [["--holder-4"], ["--holder-4"], ["--holder-2"]] as const;
