import { lazy, Suspense, useCallback, useEffect, useState } from "react";
import { Button } from "react-aria-components";
import { Check } from "../parts/Check";
import { Choice } from "../parts/Choice";
import { CopyButton } from "../parts/CopyButton";
import type { TerminalState } from "./connection";

const load = () => import("./Terminal");
const Terminal = lazy(load);

interface Props {
  readonly sessionId: string;
  readonly ranks: number;
}

interface Opened {
  readonly name: string;
  readonly rank: number;
}

const WORDS: Record<TerminalState, string> = { opening: "opening", open: "", lost: "", ended: "" };

/** A shell in a running session. `?terminal=NAME` in the address attaches to a terminal that has a name. */
export function TerminalPanel({ sessionId, ranks }: Props) {
  const [opened, setOpened] = useState<Opened | null>(asked);
  const [rank, setRank] = useState(0);
  const [isReadOnly, setReadOnly] = useState(() => new URLSearchParams(location.search).has("watch"));
  const [words, setWords] = useState("");
  const [isEnded, setEnded] = useState(false);
  // Its code comes before the click, so that the prompt waits only for the shell.
  useEffect(() => void load().catch(() => undefined), []);
  const onState = useCallback((state: TerminalState, said: string) => {
    setWords(said || WORDS[state]);
    setEnded(state === "ended");
  }, []);
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
        {opened && !isEnded ? (
          <>
            <Button className="button" onPress={leave}>
              Disconnect
            </Button>
            <Check text="Watch only" isOn={isReadOnly} onChange={setReadOnly} />
          </>
        ) : (
          <Button className="button" onPress={() => open(newName())}>
            Open a terminal
          </Button>
        )}
        <span role="status" className="quiet">
          {words}
        </span>
      </div>
      {opened && command ? (
        <>
          <Suspense fallback={<p className="quiet">Loading …</p>}>
            <Terminal
              key={`${opened.name} ${opened.rank} ${isReadOnly}`}
              sessionId={sessionId}
              rank={opened.rank}
              name={opened.name}
              isReadOnly={isReadOnly}
              onState={onState}
            />
          </Suspense>
          <div className="row small">
            <span className="quiet">The same terminal in a shell:</span>
            <code>{command}</code>
            <CopyButton text={command} what="The command" />
            <a href={`?terminal=${opened.name}&rank=${opened.rank}&watch=1`} target="_blank" rel="noreferrer">
              Watch in a new tab
            </a>
          </div>
        </>
      ) : null}
    </section>
  );
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

function newName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function rankWords(rank: number): string {
  return rank ? ` --rank ${rank}` : "";
}
