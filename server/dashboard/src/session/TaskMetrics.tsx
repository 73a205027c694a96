import { useState } from "react";
import { Link } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { ArrayMetricsDocument, type ArrayMetricsQuery } from "../generated/graphql";
import { Choice } from "../parts/Choice";
import { figure, Table } from "../parts/Table";
import type { Session } from "./loading";
import { bestOf, byBest, namesOf, valueText, type Best, type Task } from "./metrics";
import { isEnded } from "./standing";

const EVERY_MS = 30_000;
/** Rows that are shown. */
const ROWS_MAX = 100;

/** The tasks of an array by their best value of a metric. */
export function TaskMetrics({ session }: { readonly session: Session }) {
  const [chosen, setChosen] = useState("");
  const [best, setBest] = useState<Best>("low");
  const live = useLive(
    () => load(session.id),
    `task-metrics/${session.id}/${session.state}`,
    isEnded(session.state) ? {} : { everyMs: EVERY_MS },
  );
  const names = namesOf(live.data ?? []);
  const [first] = names;
  if (!live.data || first === undefined) return null;
  const name = names.includes(chosen) ? chosen : first;
  const sorted = byBest(live.data, name, best).slice(0, ROWS_MAX);
  return (
    <section className="panel stack" aria-label="Metrics of the tasks">
      <div className="row">
        <h2>Metrics</h2>
        <Choice
          label="Metric"
          isBare
          value={name}
          options={names.map((id) => ({ id, text: id }))}
          onChange={setChosen}
        />
        <Choice
          label="Best"
          isBare
          value={best}
          options={[
            { id: "low", text: "lowest first" },
            { id: "high", text: "highest first" },
          ]}
          onChange={(next) => setBest(next as Best)}
        />
      </div>
      <div className="scroll" tabIndex={0} role="region" aria-label="Tasks by metric">
        <Table columns={["Task", "State", ...names.map((one) => figure(one))]}>
          {sorted.map((task) => (
            <tr key={task.index}>
              <td>
                <Link href={`/sessions/${task.session_id}`}>{task.index}</Link>
              </td>
              <td>{task.state}</td>
              {names.map((one) => (
                <td key={one} className="figure">
                  {valueText(bestOf(task, one, best))}
                </td>
              ))}
            </tr>
          ))}
        </Table>
      </div>
    </section>
  );
}

async function load(id: string): Promise<Task[]> {
  const found: Task[] = [];
  for (let after: number | null = null; ;) {
    const { array_metrics: page }: ArrayMetricsQuery = await ask(ArrayMetricsDocument, { id, after });
    found.push(...page.tasks);
    after = page.end;
    if (after === null) return found;
  }
}
