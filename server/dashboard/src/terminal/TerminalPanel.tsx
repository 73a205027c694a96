import { useCallback, useEffect, useState } from "react";
import { Button } from "react-aria-components";
import { Check } from "../parts/Check";
import { Choice } from "../parts/Choice";
import { CopyButton } from "../parts/CopyButton";
import type { TerminalState } from "./connection";
import { newName } from "./names";

/** The code of the terminal, loaded only when one is opened. */
const load = () => import("./Terminal");
const preload = () => void load().catch(() => null);
type Loaded = typeof import("./Terminal").default;

interface Props {
  readonly sessionId: string;
  readonly ranks: number;
  readonly isRunning: boolean;
}

interface Opened {
  readonly name: string;
  readonly rank: number;
}

const WORDS: Record<TerminalState, string> = { opening: "opening", open: "", lost: "", ended: "" };

/**
 * A shell in a running session. `?terminal=NAME` in the address attaches to a terminal that has a name. One that is open
 * when the session ends stays readable.
 */
export function TerminalPanel({ sessionId, ranks, isRunning }: Props) {
  const [opened, setOpened] = useState<Opened | null>(asked);
  const [rank, setRank] = useState(0);
  const [isReadOnly, setReadOnly] = useState(() => new URLSearchParams(location.search).has("watch"));
  const [words, setWords] = useState("");
  const [isEnded, setEnded] = useState(false);
  const onState = useCallback((state: TerminalState, said: string) => {
    setWords(said || WORDS[state]);
    setEnded(state === "ended");
  }, []);
  const Terminal = useLoaded(opened !== null);
  const open = (name: string) => {
    setEnded(false);
    setWords("");
    setOpened({ name, rank });
    remember(name, rank);
  };
  const leave = () => {
    setOpened(null);
    remember(null, 0);
  };
  if (!isRunning && !opened) return null;
  const command = opened && `aliquot session shell ${sessionId} --name ${opened.name}${rankWords(opened.rank)}`;
  return (
    <section className="panel stack" aria-label="Terminal">
      <div className="row">
        <h2>Terminal</h2>
        {ranks > 1 && !opened ? (
          <Choice
            label="Rank"
            isBare
            value={String(rank)}
            options={Array.from({ length: ranks }, (_, at) => ({ id: String(at), text: `Rank ${at}` }))}
            onChange={(next) => setRank(Number(next))}
          />
        ) : null}
        {opened && !isEnded && isRunning ? (
          <>
            <Button className="button" onPress={leave}>
              Disconnect
            </Button>
            <Check text="Watch only" isOn={isReadOnly} onChange={setReadOnly} />
          </>
        ) : isRunning ? (
          <Button className="button" onHoverStart={preload} onFocus={preload} onPress={() => open(newName())}>
            Open a terminal
          </Button>
        ) : null}
        <span role="status" className="quiet">
          {words}
        </span>
      </div>
      {opened && command ? (
        <>
          {Terminal ? (
            <Terminal
              key={`${opened.name} ${opened.rank} ${isReadOnly}`}
              sessionId={sessionId}
              rank={opened.rank}
              name={opened.name}
              isReadOnly={isReadOnly}
              onState={onState}
            />
          ) : (
            <p className="quiet">Loading …</p>
          )}
          {isRunning ? (
            <div className="row small">
              <span className="quiet">The same terminal in a shell:</span>
              <code>{command}</code>
              <CopyButton text={command} what="The command" />
              <a href={`?terminal=${opened.name}&rank=${opened.rank}&watch=1`} target="_blank" rel="noreferrer">
                Watch in a new tab
              </a>
            </div>
          ) : null}
        </>
      ) : null}
    </section>
  );
}

/** The terminal when it is loaded. React shows the fallback of a `lazy` part for at least 0.3 s, even if it is there. */
function useLoaded(isWanted: boolean): Loaded | null {
  const [found, setFound] = useState<{ readonly terminal?: Loaded; readonly error?: unknown }>({});
  useEffect(() => {
    if (!isWanted || found.terminal) return;
    load().then(
      (module) => setFound({ terminal: module.default }),
      (error: unknown) => setFound({ error }),
    );
  }, [isWanted, found.terminal]);
  if (found.error) throw found.error;
  return found.terminal ?? null;
}

function asked(): Opened | null {
  const query = new URLSearchParams(location.search);
  const name = query.get("terminal");
  return name ? { name, rank: Number(query.get("rank") ?? 0) } : null;
}

/** Keeps the terminal in the address, so that reloading the page continues it. */
function remember(name: string | null, rank: number): void {
  const query = name ? `?${new URLSearchParams({ terminal: name, rank: String(rank) }).toString()}` : "";
  history.replaceState(history.state, "", `${location.pathname}${query}`);
}

function rankWords(rank: number): string {
  return rank ? ` --rank ${rank}` : "";
}
