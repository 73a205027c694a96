import { duration } from "../format/times";
import { waitQuantile, waitsOf } from "./figures";
import type { Finished } from "./loading";

/** The distribution of waiting times of ended sessions. */
export function Waits({ sessions, total }: { readonly sessions: readonly Finished[]; readonly total: number }) {
  const bins = waitsOf(sessions);
  const most = Math.max(1, ...bins.map((bin) => bin.count));
  const middle = waitQuantile(sessions, 0.5);
  const high = waitQuantile(sessions, 0.95);
  return (
    <section className="panel stack" aria-label="Waiting times">
      <div className="row">
        <h2>Waiting times</h2>
        <span className="quiet small">
          of the newest {sessions.length} of {total} ended sessions
        </span>
      </div>
      {middle === null || high === null ? null : (
        <p>
          Median <b>{duration(middle * 1000)}</b>, 95th percentile <b>{duration(high * 1000)}</b>.
        </p>
      )}
      <table>
        <tbody>
          {bins.map((bin) => (
            <tr key={bin.label}>
              <th scope="row">{bin.label}</th>
              <td className="usage-bar holder-0">
                <span style={{ width: `${(100 * bin.count) / most}%` }} />
              </td>
              <td className="figure">{bin.count}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
