import { ask, Refusal } from "../api/client";
import { useLive } from "../api/live";
import { bytes } from "../format/amounts";
import { LogTailDocument } from "../generated/graphql";
import { Faults } from "../parts/Faults";
import { LogLine } from "./LogLine";
import { Lines } from "./lines";

/** One of several logs: of a task, or of a rank. */
export interface Part {
  readonly id: string;
  readonly rank: number;
  /** Written before each of its lines. */
  readonly label: string;
}

interface Tail {
  readonly label: string;
  readonly text: string;
  readonly length: number;
}

/** How much of the end of each log is shown. */
export const TAIL_BYTES = 8_192;
/** Logs shown at a time. */
export const PARTS_MAX = 40;
const AT_ONCE = 6;
const EVERY_MS = 5_000;
const LINES_MAX = 400;

/** The ends of several logs, each line behind its label; queried again while some still grow. */
export function LogsTogether({ parts, isGrowing }: { readonly parts: readonly Part[]; readonly isGrowing: boolean }) {
  const shown = parts.slice(0, PARTS_MAX);
  const key = shown.map(({ id, rank }) => `${id}/${rank}`).join();
  const live = useLive(() => tailsOf(shown), `logs/${key}`, isGrowing ? { everyMs: EVERY_MS } : {});
  if (parts.length === 0) return <p className="quiet">No log to show.</p>;
  return (
    <>
      <Faults of={live} />
      {live.data ? (
        <div className="logs-together" role="log" aria-label="Logs" tabIndex={0}>
          {live.data.map((tail) => (
            <TailLines key={tail.label} tail={tail} />
          ))}
        </div>
      ) : null}
      <p className="quiet small">
        The last {bytes(TAIL_BYTES)} of each
        {parts.length > shown.length ? `, for the first ${shown.length} of ${parts.length}` : ""}.
      </p>
    </>
  );
}

function TailLines({ tail }: { readonly tail: Tail }) {
  const lines = new Lines(LINES_MAX, TAIL_BYTES * 2);
  lines.append(tail.text);
  if (lines.count === 0)
    return (
      <div className="together-line">
        <b>[{tail.label}]</b> <span className="quiet">nothing was printed</span>
      </div>
    );
  return Array.from({ length: lines.count }, (_, index) => (
    <div key={index} className="together-line">
      <b>[{tail.label}]</b> <LogLine line={lines.at(index)} />
    </div>
  ));
}

async function tailsOf(parts: readonly Part[]): Promise<readonly Tail[]> {
  const tails: Tail[] = [];
  for (let start = 0; start < parts.length; start += AT_ONCE)
    tails.push(...(await Promise.all(parts.slice(start, start + AT_ONCE).map(tailOf))));
  return tails;
}

async function tailOf({ id, rank, label }: Part): Promise<Tail> {
  try {
    const { session_log: log } = await ask(LogTailDocument, { id, rank, offset: -TAIL_BYTES });
    return { label, text: log.text, length: log.length };
  } catch (error) {
    if (!(error instanceof Refusal) || error.fault.kind !== "refused") throw error;
    return { label, text: error.message, length: 0 };
  }
}
