import { Link } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { percent } from "../format/amounts";
import { ObservedUseDocument } from "../generated/graphql";
import { jointUsesOf } from "./figures";

const EVERY_MS = 30_000;
const ROWS_MAX = 60;

/** Who uses which GPU now, by the processes on it; and this week's hours by person where the server records them. */
export function WhoUses() {
  const found = useLive(() => ask(ObservedUseDocument, {}), "observed", { everyMs: EVERY_MS }).data;
  if (!found || found.observed_gpus.length === 0) return null;
  const { observed_gpus: gpus, observed_week: week } = found;
  const uses = jointUsesOf(gpus);
  return (
    <section className="panel stack" aria-label="Who uses GPUs now">
      <h2>Who uses GPUs now</h2>
      {week?.people.length ? (
        <div className="scroll" tabIndex={0} role="region" aria-label="Hours of this week">
          <table aria-label="This week">
            <thead>
              <tr>
                <th>Week {week.week}</th>
                <th>GPU-hours</th>
                <th>Unused</th>
                <th>Equal part</th>
              </tr>
            </thead>
            <tbody>
              {week.people.map((one) => (
                <tr key={one.user}>
                  <td>{one.user}</td>
                  <td>{one.gpu_hours.toFixed(1)}</td>
                  <td>{one.idle_hours.toFixed(1)}</td>
                  <td>{one.fair_hours.toFixed(1)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      <div className="scroll" tabIndex={0} role="region" aria-label="Each GPU now">
        <table aria-label="GPUs now">
          <thead>
            <tr>
              <th>Node</th>
              <th>GPUs</th>
              <th>Mean use</th>
              <th>Who</th>
            </tr>
          </thead>
          <tbody>
            {uses.slice(0, ROWS_MAX).map((use) => (
              <tr key={`${use.hostname}/${use.gpus[0]}`}>
                <td className="nowrap">{use.hostname}</td>
                <td>{use.gpus.join(", ")}</td>
                <td className="nowrap">{use.usePct === null ? "–" : percent(use.usePct / 100)}</td>
                <td>{use.who}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {uses.length > ROWS_MAX ? (
        <p className="quiet small">
          The first {ROWS_MAX} of {uses.length} rows. <Link href="/">Cluster</Link> shows every GPU.
        </p>
      ) : null}
    </section>
  );
}
