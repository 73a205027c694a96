import { lazy, Suspense } from "react";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { Loading } from "../api/Together";
import { SessionMetricsDocument } from "../generated/graphql";
import type { Session } from "./loading";
import { pointsOf, valueText } from "./metrics";
import { isEnded } from "./standing";

const Plot = lazy(() => import("../parts/Plot"));
const EVERY_MS = 10_000;

/** Plots of the numbers that a session prints. */
export function Metrics({ session }: { readonly session: Session }) {
  const live = useLive(
    async () => (await ask(SessionMetricsDocument, { id: session.id })).session_metrics,
    `metrics/${session.id}/${session.attempt}/${session.state}`,
    isEnded(session.state) ? {} : { everyMs: EVERY_MS },
  );
  const found = live.data;
  if (!found?.series.length) return null;
  return (
    <section className="panel stack" aria-label="Metrics">
      <div className="row">
        <h2>Metrics</h2>
        <span className="quiet small">
          {found.is_partial ? "of a part of its output; the rest is being read" : "over steps"}
        </span>
      </div>
      <Suspense fallback={<Loading />}>
        <div className="plots">
          {found.series.map((series) => {
            const { steps, values } = pointsOf(series);
            const label = `${series.name}: ${valueText(series.last)}, lowest ${valueText(series.low)}, highest ${valueText(series.high)}`;
            return steps.length < 2 ? (
              <p key={series.name}>{label}</p>
            ) : (
              <Plot key={series.name} label={label} isSteps times={steps} names={[series.name]} series={[values]} />
            );
          })}
        </div>
      </Suspense>
    </section>
  );
}
