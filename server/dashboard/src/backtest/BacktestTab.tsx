import { useEffect, useState } from "react";
import { Button } from "react-aria-components";
import { useSearchParams } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { serverNow } from "../api/time";
import { percent } from "../format/amounts";
import { moment } from "../format/times";
import { BacktestsDocument } from "../generated/graphql";
import { Choice } from "../parts/Choice";
import { Faults } from "../parts/Faults";
import { TablePanel } from "../parts/Table";
import { Text } from "../parts/Text";
import { Comparison } from "./Comparison";
import { csvOf, isOpen, sinceOf, spanWrong, type Backtest } from "./figures";
import { start, stop } from "./running";
import { said, useFollowed } from "./TryLastWeek";
import { BeginTuning, Proposal } from "./Tuning";
import { useIsShown } from "../parts/shown";

const ORDERS = ["fair_share", "relative_age", "priority", "fcfs", "sjf", "gang", "las", "srtf"] as const;
const BACKFILLS = ["easy", "conservative", "none"] as const;
const COLUMNS = ["Started", "By", "Runs", "State"];
const EVERY_MS = 3000;
const WORDS = new Map<string, string>([
  ["queued", "It waits until the running one has ended."],
  ["canceled", "It was canceled, so it has no result."],
]);

const optionsOf = <T extends string>(names: readonly T[]) => names.map((id) => ({ id, text: id }));

/** Backtests: the recorded history run again with another order, backfill or cluster. */
export function BacktestTab() {
  const [search, setSearch] = useSearchParams();
  const id = search.get("id") ?? "";
  const [found, setFound] = useState<Backtest | null>(null);
  const [wrong, setWrong] = useState("");
  const isShown = useIsShown();
  const open = (next: string) => {
    if (!isShown()) return; // its own page is shown no more, and another one may be in use
    setWrong("");
    if (next !== id) setSearch({ tab: "backtest", id: next });
  };
  useEffect(() => setWrong(""), [id]);
  useFollowed(id, setFound, setWrong);
  const shown = found?.id === id ? found : null;
  return (
    <div className="stack">
      <p>
        A backtest runs the recorded history again: the submissions, run times, cancellations, quotas and agents of the
        time, decided by another policy or on another cluster.
      </p>
      <Begin onStarted={open} onWrong={setWrong} />
      <BeginTuning onStarted={open} onWrong={setWrong} />
      {wrong ? (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      ) : null}
      <List onOpen={open} />
      {shown ? (
        <Shown
          backtest={shown}
          onApplied={(version) => setFound({ ...shown, applied_version: version })}
          onWrong={setWrong}
        />
      ) : null}
    </div>
  );
}

interface BeginProps {
  readonly onStarted: (id: string) => void;
  readonly onWrong: (message: string) => void;
}

function Begin({ onStarted, onWrong }: BeginProps) {
  const [since, setSince] = useState("7d");
  const [order, setOrder] = useState<(typeof ORDERS)[number]>("fcfs");
  const [backfill, setBackfill] = useState<(typeof BACKFILLS)[number]>("easy");
  const sinceWrong = spanWrong(since);
  const begin = () =>
    said(onWrong, async () => {
      onWrong("");
      const runs = [{ label: `${order}, ${backfill}`, policy: { order, backfill } }];
      const outcome = await start({ runs, since: sinceOf(since, serverNow()) });
      if ("message" in outcome) onWrong(outcome.message);
      else onStarted(outcome.id);
    });
  return (
    <div className="row at-end">
      <Text label="Last" value={since} onChange={setSince} wrong={sinceWrong} />
      <Choice label="Order" value={order} options={optionsOf(ORDERS)} onChange={setOrder} />
      <Choice label="Backfill" value={backfill} options={optionsOf(BACKFILLS)} onChange={setBackfill} />
      <Button className="button main" isDisabled={sinceWrong !== undefined} onPress={() => void begin()}>
        Run
      </Button>
    </div>
  );
}

function List({ onOpen }: { readonly onOpen: (id: string) => void }) {
  const live = useLive(async () => (await ask(BacktestsDocument, {})).backtests, "backtests", { everyMs: EVERY_MS });
  if (!live.data) return <Faults of={live} />;
  if (!live.data.length) return <p className="quiet">No backtests yet.</p>;
  return (
    <TablePanel label="Backtests" columns={COLUMNS}>
      {live.data.map((one) => (
        <tr key={one.id}>
          <td>
            <Button className="button plain" onPress={() => onOpen(one.id)}>
              {moment(one.created_at)}
            </Button>
          </td>
          <td>{one.created_by}</td>
          <td>{one.labels.join("; ")}</td>
          <td>{one.state === "running" ? `running, ${percent(one.progress)}` : one.state}</td>
        </tr>
      ))}
    </TablePanel>
  );
}

interface ShownProps {
  readonly backtest: Backtest;
  readonly onApplied: (version: number) => void;
  readonly onWrong: (message: string) => void;
}

function Shown({ backtest, onApplied, onWrong }: ShownProps) {
  const { report, tuning } = backtest;
  return (
    <section className="stack" aria-label="Backtest">
      <div className="row">
        <h2>
          {backtest.labels.join("; ")}, {moment(backtest.since)} to {moment(backtest.until)}
        </h2>
        {report ? (
          <a className="button end" download="backtest.csv" href={`data:text/csv,${encodeURIComponent(csvOf(report))}`}>
            CSV
          </a>
        ) : null}
        {isOpen(backtest.state) ? (
          <Button className="button end" onPress={() => void said(onWrong, () => stop(backtest.id))}>
            Stop
          </Button>
        ) : null}
      </div>
      {isOpen(backtest.state) ? (
        <progress max={1} value={backtest.progress} aria-label="Progress of the backtest" />
      ) : null}
      {WORDS.has(backtest.state) ? <p className="quiet">{WORDS.get(backtest.state)}</p> : null}
      {backtest.failure ? (
        <p className="wrong" role="alert">
          {backtest.failure}
        </p>
      ) : null}
      {report ? <Comparison backtest={backtest} report={report} /> : null}
      {tuning ? <Proposal backtest={backtest} tuning={tuning} onApplied={onApplied} onWrong={onWrong} /> : null}
    </section>
  );
}
