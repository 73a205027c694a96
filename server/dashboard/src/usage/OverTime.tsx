import { lazy, Suspense, useMemo } from "react";
import { Button } from "react-aria-components";
import { Link } from "wouter";
import type { Live } from "../api/live";
import { Loading } from "../api/Together";
import { colourOf } from "../format/colours";
import { timesOf } from "../history/course";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { figure, Table } from "../parts/Table";
import { saveCsv } from "./csv";
import { csvOf, efficiencyOf, holdingsOf, OTHERS, stacked, sumOf, together, type UsageHistory } from "./holdings";
import type { Period } from "./ranges";

const Plot = lazy(() => import("../parts/Plot"));

interface Props {
  readonly live: Live<UsageHistory>;
  readonly by: "user" | "project";
  readonly period: Period;
  readonly onZoom: (from: number, to: number) => void;
}

/** GPU-hours held over time, by user or project, and their utilization. */
export function OverTime({ live, by, period, onZoom }: Props) {
  const history = live.data;
  const drawn = useMemo(() => (history ? drawnOf(history) : null), [history]);
  return (
    <section className="panel stack" aria-label="Over time">
      <div className="row">
        <h2>GPU-hours per {period.each}</h2>
        <span className="quiet small">devices held; shares count in part</span>
        <Button
          className="button end"
          isDisabled={!drawn?.holdings.length}
          aria-label="CSV of GPU-hours over time"
          onPress={() => history && saveCsv(`usage-${by}-${period.id}.csv`, csvOf(history, by))}
        >
          CSV
        </Button>
      </div>
      <Faults of={live} />
      {history?.warning ? <p className="note warn">{history.warning}</p> : null}
      {drawn?.holdings.length === 0 ? (
        <Empty title="No device was held in this period">
          <p>Devices count from their grant to a session until their release.</p>
        </Empty>
      ) : null}
      {history && drawn?.holdings.length ? (
        <Suspense fallback={<Loading />}>
          <div className="plots">
            <Plot
              label={`GPU-hours held, by ${by}`}
              times={drawn.times}
              names={drawn.names}
              series={drawn.stack}
              shown={drawn.holdings.map(({ hours }) => hours)}
              tokens={drawn.tokens}
              onZoom={onZoom}
              barS={history.step}
            />
            <Plot
              label="Utilization while held, %"
              times={drawn.times}
              names={BUSY}
              series={drawn.busy}
              top={100}
              onZoom={onZoom}
              barS={history.step}
            />
            <div>
              <Table
                columns={[by === "user" ? "User" : "Project", figure("GPU-hours"), figure("Utilization while held")]}
              >
                {drawn.holdings.map((holding, index) => (
                  <tr key={holding.name}>
                    <td>
                      <i className="swatch" style={{ background: `var(${drawn.tokens[index]})` }} />{" "}
                      {holding.name === OTHERS ? (
                        holding.name
                      ) : (
                        <Link href={sessionsOf(by, holding.name)}>{holding.name}</Link>
                      )}
                    </td>
                    <td className="figure">{sumOf(holding.hours).toFixed(2)}</td>
                    <td className="figure">{percent(efficiencyOf(holding))}</td>
                  </tr>
                ))}
                <tr>
                  <th scope="row">total</th>
                  <td className="figure">{sumOf(drawn.all.hours).toFixed(2)}</td>
                  <td className="figure">{percent(efficiencyOf(drawn.all))}</td>
                </tr>
              </Table>
            </div>
          </div>
        </Suspense>
      ) : null}
    </section>
  );
}

const BUSY = ["mean over devices held"];

function drawnOf(history: UsageHistory) {
  const holdings = holdingsOf(history);
  const all = together(holdings);
  return {
    holdings,
    all,
    times: timesOf(history),
    stack: stacked(holdings),
    names: holdings.map(({ name }) => name),
    tokens: holdings.map(({ name }) => (name === OTHERS ? "--line-strong" : `--holder-${colourOf(name)}`)),
    busy: [all.busy],
  };
}

function percent(value: number | null): string {
  return value === null ? "—" : `${value.toFixed(value < 10 ? 1 : 0)} %`;
}

/** The sessions of a user or project. */
export function sessionsOf(by: "user" | "project", name: string): string {
  return `/sessions?state=ended&${by === "user" ? "owner" : "project"}=${encodeURIComponent(name)}`;
}
