import { ask } from "../api/client";
import { useLive } from "../api/live";
import { percent } from "../format/amounts";
import { ObservedUseDocument, type ObservedUseQuery } from "../generated/graphql";

const EVERY_MS = 30_000;
type Gpu = ObservedUseQuery["observed_gpus"][number];

/** Who uses which GPU now, by the processes on it; and this week's hours by person where the server records them. */
export function WhoUses() {
  const found = useLive(() => ask(ObservedUseDocument, {}), "observed", { everyMs: EVERY_MS }).data;
  if (!found || found.observed_gpus.length === 0) return null;
  const { observed_gpus: gpus, observed_week: week } = found;
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
              <th>GPU</th>
              <th>Use</th>
              <th>Who</th>
            </tr>
          </thead>
          <tbody>
            {gpus.map((gpu) => (
              <tr key={`${gpu.node_id}/${gpu.gpu_id}`}>
                <td>{gpu.hostname}</td>
                <td>{gpu.name}</td>
                <td>{gpu.utilization_pct === null ? "–" : percent(gpu.utilization_pct / 100)}</td>
                <td>{whoOf(gpu)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function whoOf(gpu: Gpu): string {
  const people = gpu.people.map(({ user, processes }) =>
    processes ? `${user} (${processes === 1 ? "1 process" : `${processes} processes`})` : user,
  );
  return people.join(", ") || "free";
}
