import { lazy, Suspense } from "react";
import { Link } from "wouter";
import { percent } from "../format/amounts";
import { duration } from "../format/times";
import { figure, TablePanel } from "../parts/Table";
import { fidelityOf, groupsOf, movesOf, timesOf, waits, type Backtest, type Report, type Row } from "./figures";

const Plot = lazy(() => import("../parts/Plot"));

const FIGURES = [
  "Run",
  figure("Mean wait"),
  figure("95th percentile"),
  figure("Longest"),
  figure("Mean completion"),
  figure("Slowdown", "Time from submission to end by run time; shorter runs count as 10 s"),
  figure("GPUs used"),
  figure("Preemptions"),
  figure("Fairness", "Jain's index of the users' slowdowns: 1 = all equal"),
];
const QUANTILES = [50, 75, 90, 95, 99];
const GROUPS_SHOWN = 8;

/** The figures of all runs of a backtest, side by side. */
export function Figures({ report }: { readonly report: Pick<Report, "rows"> }) {
  return (
    <TablePanel label="Figures of the runs" columns={FIGURES}>
      {report.rows.map((row) => (
        <tr key={row.label}>
          <th scope="row">{row.label}</th>
          <td className="figure">{duration(row.wait.mean * 1000)}</td>
          <td className="figure">{duration(row.wait.p95 * 1000)}</td>
          <td className="figure">{duration(row.wait.max * 1000)}</td>
          <td className="figure">{duration(row.completion.mean * 1000)}</td>
          <td className="figure">{row.slowdown.toFixed(1)}</td>
          <td className="figure">{percent(row.utilization)}</td>
          <td className="figure">{row.preemptions}</td>
          <td className="figure">{row.fairness_users.toFixed(2)}</td>
        </tr>
      ))}
    </TablePanel>
  );
}

/** A finished backtest: figures, plots, and who gains and who loses. */
export function Comparison({ backtest, report }: { readonly backtest: Backtest; readonly report: Report }) {
  const names = report.rows.map((row) => row.label);
  const times = timesOf(backtest.since, backtest.until, report.rows[0]?.utilization_over_time.length ?? 0);
  const used = report.rows.map((row) => row.utilization_over_time.map((part) => 100 * part));
  const waiting = report.rows.map((row) => row.waiting_over_time);
  return (
    <div className="stack">
      <Figures report={report} />
      <p>
        {report.sessions} sessions. {fidelityOf(report)}
      </p>
      {report.different.length ? (
        <ul className="small">
          {report.different.map((one) => (
            <li key={one.session_id}>
              <Link href={`/sessions/${one.session_id}`}>{one.session_id}</Link> of {one.owner}: {one.reason}
            </li>
          ))}
        </ul>
      ) : null}
      {report.notes.map((note) => (
        <p key={note} className="note">
          {note}
        </p>
      ))}
      {times.length > 1 ? (
        <Suspense fallback={<p className="quiet">Loading plots …</p>}>
          <Plot label="GPUs used, per cent" times={times} names={names} series={used} top={100} />
          <Plot label="Waiting sessions" times={times} names={names} series={waiting} />
        </Suspense>
      ) : null}
      <Distribution report={report} />
      {report.rows.slice(1).map((row) => (
        <Moves key={row.label} row={row} />
      ))}
    </div>
  );
}

function Distribution({ report }: { readonly report: Report }) {
  const columns = ["Wait of", ...report.rows.map((row) => figure(row.label))];
  return (
    <TablePanel label="Distribution of waits" columns={columns}>
      {QUANTILES.map((part) => (
        <tr key={part}>
          <th scope="row">{part} % of the sessions, at most</th>
          {report.rows.map((row) => (
            <td key={row.label} className="figure">
              {duration((row.wait_quantiles[part] ?? 0) * 1000)}
            </td>
          ))}
        </tr>
      ))}
    </TablePanel>
  );
}

function Moves({ row }: { readonly row: Row }) {
  return (
    <section className="panel stack" aria-label={`Who gains and who loses: ${row.label}`}>
      <h3>{row.label}</h3>
      <p>{movesOf(row)}</p>
      <ul>
        {groupsOf(row)
          .slice(0, GROUPS_SHOWN)
          .map((group) => (
            <li key={`${group.kind} ${group.name}`}>
              {group.kind} {group.name}: mean wait {waits(group.wait_before, group.wait)}, {group.sessions} sessions
            </li>
          ))}
      </ul>
      {row.losers.length ? <h4>Sessions that lose most</h4> : null}
      <ul className="small">
        {row.losers.slice(0, GROUPS_SHOWN).map((one) => (
          <li key={one.session_id}>
            <Link href={`/sessions/${one.session_id}`}>{one.session_id}</Link> of {one.owner}:{" "}
            {waits(one.wait_before, one.wait_after)}
          </li>
        ))}
      </ul>
    </section>
  );
}
