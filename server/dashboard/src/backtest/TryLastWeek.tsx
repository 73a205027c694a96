import { useEffect, useRef, useState } from "react";
import { Button } from "react-aria-components";
import { Refusal } from "../api/client";
import { serverNow } from "../api/time";
import type { BacktestRunInput } from "../generated/graphql";
import { FiguresBeside } from "./Comparison";
import { fidelityOf, inputOf, isOpen, movesOf, type Backtest } from "./figures";
import { load, start, stop } from "./running";

const EVERY_MS = 1000;
const IN_FORCE_EVERY_MS = 60_000;
const DAYS = 7;
const GONE = "This backtest is not kept any more. The newest 50 are.";

interface Props {
  /** The differences from the record. */
  readonly run: BacktestRunInput;
  readonly isDisabled?: boolean;
}

/** Runs the sessions of the last week with changes of the policy or of a quota, and shows what they would have meant. */
export function TryLastWeek({ run, isDisabled = false }: Props) {
  const [found, setFound] = useState<Backtest | null>(null);
  const [wrong, setWrong] = useState("");
  const [id, setId] = useState("");
  useFollowed(id, setFound, setWrong);
  const begin = async () => {
    setWrong("");
    setFound(null);
    await said(setWrong, async () => {
      const outcome = await start(inputOf([{ label: "with the changes", ...run }], DAYS, serverNow()));
      if ("message" in outcome) setWrong(outcome.message);
      else setId(outcome.id);
    });
  };
  const isRunning = id !== "" && !wrong && (found === null || isOpen(found.state));
  const after = found?.report?.rows[1];
  const result = useRef<HTMLDivElement>(null);
  // The dialogue is longer than the screen: the answer would appear below its edge.
  useEffect(() => {
    if (after) result.current?.scrollIntoView({ block: "nearest" });
  }, [after]);
  return (
    <section className="stack" aria-label="Last week with these changes" aria-live="polite">
      <div className="row">
        <Button className="button" isDisabled={isRunning || isDisabled} onPress={() => void begin()}>
          Try on the last week
        </Button>
        {isRunning ? (
          <>
            <progress max={1} value={found?.progress ?? 0} aria-label="Progress of the backtest" />
            <Button className="button plain" onPress={() => void said(setWrong, () => stop(id))}>
              Stop
            </Button>
          </>
        ) : null}
      </div>
      {wrong || found?.failure ? <p className="wrong">{wrong || found?.failure}</p> : null}
      {found?.report && after ? (
        <div ref={result} className="stack">
          <FiguresBeside report={found.report} />
          <p>
            {movesOf(after)} {fidelityOf(found.report)}
          </p>
        </div>
      ) : null}
    </section>
  );
}

/** Asks for a backtest until it has ended, also after the server could not be reached. */
export function useFollowed(
  id: string,
  onFound: (found: Backtest | null) => void,
  onWrong: (message: string) => void,
): void {
  const latest = useRef({ onFound, onWrong });
  latest.current = { onFound, onWrong };
  useEffect(() => {
    if (id === "") return undefined;
    let timer = 0;
    let isOver = false;
    let isAway = false;
    const next = async () => {
      try {
        const found = await load(id);
        if (isOver) return;
        if (isAway) latest.current.onWrong("");
        isAway = false;
        latest.current.onFound(found);
        if (found === null) latest.current.onWrong(GONE);
        else if (isOpen(found.state)) timer = window.setTimeout(() => void next(), EVERY_MS);
        else if (isInForce(found)) timer = window.setTimeout(() => void next(), IN_FORCE_EVERY_MS);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (isOver) return;
        isAway = error.fault.kind === "away";
        latest.current.onWrong(isAway ? `${error.message} Trying again …` : error.message);
        if (isAway) timer = window.setTimeout(() => void next(), EVERY_MS);
      }
    };
    void next();
    return () => {
      isOver = true;
      window.clearTimeout(timer);
    };
  }, [id]);
}

/** Whether the policy is the one that a tuning made: it may be taken back. */
function isInForce({ applied_version, superseded }: Backtest): boolean {
  return applied_version !== null && superseded === null;
}

/** Runs something; a refusal of the server becomes a message. */
export async function said(onWrong: (message: string) => void, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    onWrong(error.message);
  }
}
