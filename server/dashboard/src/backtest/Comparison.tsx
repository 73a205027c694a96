import { lazy, Suspense } from "react";
import { Link } from "wouter";
import { percent } from "../format/amounts";
import { duration } from "../format/times";
import { figure, Table, TablePanel, type Column } from "../parts/Table";
import { fidelityOf, groupsOf, movesOf, timesOf, waits, type Backtest, type Report, type Row } from "./figures";

const Plot = lazy(() => import("../parts/Plot"));

const FIGURES: readonly (readonly [Column, (row: Row) => string])[] = [
  [figure("Mean wait"), ({ wait }) => duration(wait.mean * 1000)],
  [figure("95th percentile", "Of the waits"), ({ wait }) => duration(wait.p95 * 1000)],
  [figure("Longest", "Longest wait"), ({ wait }) => duration(wait.max * 1000)],
  [figure("Mean completion"), ({ completion }) => duration(completion.mean * 1000)],
  [
    figure("Slowdown", "Time from submission to end by run time; shorter runs count as 10 s"),
    ({ slowdown }) => slowdown.toFixed(1),
  ],
  [figure("GPUs used"), ({ utilization }) => percent(utilization)],
  [figure("Preemptions"), ({ preemptions }) => String(preemptions)],
  [
    figure("Fairness", "Jain's index of the users' slowdowns: 1 = all equal"),
    ({ fairness_users }) => fairness_users.toFixed(2),
  ],
];
const QUANTILES = [50, 75, 90, 95, 99];
const GROUPS_SHOWN = 8;

/** The figures of all runs of a backtest, side by side. */
export function Figures({ report }: { readonly report: Pick<Report, "rows"> }) {
  return (
    <TablePanel label="Figures of the runs" columns={["Run", ...FIGURES.map(([column]) => column)]}>
      {report.rows.map((row) => (
        <tr key={row.label}>
          <th scope="row">{row.label}</th>
          {FIGURES.map(([{ name }, text]) => (
            <td key={name} className="figure">
              {text(row)}
            </td>
          ))}
        </tr>
      ))}
    </TablePanel>
  );
}

/** The figures of two runs, one column each, which fits a dialogue and a narrow screen. */
export function FiguresBeside({ report }: { readonly report: Pick<Report, "rows"> }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Figures of the runs">
      <Table columns={["", ...report.rows.map((row) => figure(row.label))]}>
        {FIGURES.map(([{ name, title }, text]) => (
          <tr key={name}>
            <th scope="row" title={title}>
              {name}
            </th>
            {report.rows.map((row) => (
              <td key={row.label} className="figure">
                {text(row)}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </div>
  );
}

/** A finished backtest: figures, plots, winners and losers. */
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
