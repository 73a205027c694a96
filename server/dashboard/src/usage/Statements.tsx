import { useState } from "react";
import { Button } from "react-aria-components";
import { Refusal } from "../api/client";
import { useLive } from "../api/live";
import { serverNow } from "../api/time";
import { Faults } from "../parts/Faults";
import { showNotice } from "../parts/notices";
import { save } from "../parts/saving";
import { figure, TablePanel } from "../parts/Table";
import { percent } from "../format/amounts";
import { loadStatement, loadStatements, type Statement } from "./loading";

const EVERY_MS = 60_000;
const MONTHS = 12;

/** Monthly statements of projects, as a table and as documents. */
export function Statements() {
  const months = monthsUntil(new Date(serverNow()));
  const [month, setMonth] = useState(months[0] ?? "");
  const live = useLive(() => loadStatements(month), `statements/${month}`, { everyMs: EVERY_MS });
  return (
    <section className="panel stack" aria-label="Statements">
      <div className="row">
        <h2>Statements</h2>
        <label className="row small">
          Month, UTC
          <select value={month} onChange={(event) => setMonth(event.target.value)}>
            {months.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      </div>
      <Faults of={live} />
      {live.data?.length ? <Projects statements={live.data} /> : null}
      {live.data?.length === 0 ? <p>No project has a statement for this month.</p> : null}
    </section>
  );
}

function Projects({ statements }: { readonly statements: readonly Statement[] }) {
  return (
    <TablePanel
      label="Statements by project"
      columns={[
        "Project",
        figure("GPU-hours"),
        figure("Idle"),
        figure("Lost", "To failures and preemption"),
        figure("ETTR", "Effective training time ratio: the part of the time held that was not lost"),
        figure("Cost"),
        figure("Share"),
        figure("Entitlement"),
        "Why was it behind?",
        "Statement",
      ]}
    >
      {statements.map((one) => (
        <tr key={one.project}>
          <th scope="row">{one.project}</th>
          <td className="figure">{one.gpu_hours.toFixed(2)}</td>
          <td className="figure">{hoursOf(one, ["idle"]).toFixed(2)}</td>
          <td className="figure">{hoursOf(one, ["lost_failure", "lost_preemption"]).toFixed(2)}</td>
          <td className="figure">{one.ettr === null ? "—" : percent(one.ettr)}</td>
          <td className="figure">
            {one.cost.toFixed(2)}
            {one.budget === null ? "" : ` of ${one.budget.toFixed(2)}`} {one.currency}
          </td>
          <td className="figure">{percent(one.share)}</td>
          <td className="figure">{percent(one.entitlement)}</td>
          <td>{one.behind.join(" ")}</td>
          <td className="nowrap">
            <Button className="button" onPress={() => void download(one, "html")}>
              HTML
            </Button>{" "}
            <Button className="button" onPress={() => void download(one, "csv")}>
              CSV
            </Button>
          </td>
        </tr>
      ))}
    </TablePanel>
  );
}

async function download(one: Statement, format: "csv" | "html"): Promise<void> {
  try {
    const text = await loadStatement(one.project, one.month, format);
    save(`${one.project}-${one.month}.${format}`, new Blob([text], { type: `text/${format}` }));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showNotice({ tone: "bad", text: error.message });
  }
}

function hoursOf(one: Statement, kinds: readonly string[]): number {
  return one.lines.filter(({ kind }) => kinds.includes(kind)).reduce((sum, line) => sum + line.gpu_hours, 0);
}

/** The last months, the present one first: `2026-11`. */
function monthsUntil(now: Date): string[] {
  return Array.from({ length: MONTHS }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7),
  );
}
