import { useLive } from "../api/live";
import { Faults } from "../parts/Faults";
import { percent } from "../format/amounts";
import { figure, Table } from "../parts/Table";
import { loadFairShares, type FairShare } from "./loading";

const EVERY_MS = 60_000;
const WIDTH = 96;
const HEIGHT = 24;

/** Share and entitlement of each user, how their usage decays, and what would move them up. */
export function FairShares() {
  const live = useLive(loadFairShares, "fair-shares", { everyMs: EVERY_MS });
  return (
    <>
      <Faults of={live} />
      {live.data?.length ? <Shares shares={live.data} /> : null}
    </>
  );
}

function Shares({ shares }: { readonly shares: readonly FairShare[] }) {
  const top = Math.max(...shares.flatMap(({ curve }) => curve));
  return (
    <section className="panel stack" aria-label="Fair shares">
      <div className="row">
        <h2>Fair shares</h2>
        <span className="quiet small">of decayed usage; a share below the entitlement moves sessions up</span>
      </div>
      <div className="scroll" tabIndex={0} role="region" aria-label="Fair shares by user and project">
        <Table
          className="stacked"
          columns={[
            "User",
            "Project",
            figure("Share"),
            figure("Entitlement", "By the weights of those who compete now"),
            figure("Decayed", "Decayed GPU-hours"),
            "Decay if idle",
            "What would move them up",
          ]}
        >
          {shares.map((one) => (
            <tr key={`${one.project}/${one.user}`}>
              <td>{one.user}</td>
              <td>{one.project}</td>
              <td className="figure" data-label="share">
                {percent(one.share)}
              </td>
              <td className="figure" data-label="entitlement">
                {percent(one.entitlement)}
              </td>
              <td className="figure" data-label="decayed">
                {one.gpu_hours_decayed.toFixed(2)}
              </td>
              <td data-label="decay if idle">{hasUsage(one) ? <Curve of={one} top={top} /> : "—"}</td>
              <td className="sentence">{one.advice}</td>
            </tr>
          ))}
        </Table>
      </div>
    </section>
  );
}

/** Whether the decayed usage is more than the 0.00 that its column rounds to. */
function hasUsage({ gpu_hours_decayed }: FairShare): boolean {
  return gpu_hours_decayed >= 0.005;
}

/** Decayed GPU-hours over the next three half-lives; `top` is the top of the scale, the same for all. */
function Curve({ of, top }: { readonly of: FairShare; readonly top: number }) {
  const last = Math.max(of.curve.length - 1, 1);
  const points = of.curve.map((value, index) => `${(index / last) * WIDTH},${HEIGHT * (1 - value / top)}`);
  const days = Math.round((of.step * last) / 86_400);
  return (
    <svg
      role="img"
      aria-label={`Decayed usage over the next ${days} days if nothing more is held`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
    >
      <polyline points={points.join(" ")} fill="none" stroke="var(--accent)" strokeWidth="1.5" />
    </svg>
  );
}
