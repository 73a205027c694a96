import { useEffect, useMemo, useReducer, useState } from "react";
import { Button, Input, SearchField } from "react-aria-components";
import { Check } from "../parts/Check";
import { Choice } from "../parts/Choice";
import { Numbered, numbered } from "../parts/Numbered";
import { bytes } from "../format/amounts";
import { Download } from "./Download";
import { LogFollower, type LogState, type Which } from "./following";
import { LogsTogether } from "./LogsTogether";
import { LogScroll } from "./LogScroll";
import { linesOf, next, Search } from "./search";

interface Props {
  readonly sessionId: string;
  readonly name: string;
  readonly ranks: number;
  readonly attempt: number;
}

/** Characters searched before the page handles other events. */
const SEARCH_CHARACTERS = 2_000_000;
const ALL = "all";
const WORDS: Record<LogState, string> = {
  opening: "waiting for output",
  following: "live",
  lost: "connection lost, trying again",
  ended: "ended",
  refused: "",
};

function statusText({ state, unavailableReason }: LogFollower): string {
  return state === "lost" && unavailableReason ? `${unavailableReason}; trying again` : WORDS[state];
}

/** The output of one rank: followed live, searched and downloaded. */
export function LogPanel({ sessionId, name, ranks, attempt }: Props) {
  const [rank, setRank] = useState(0);
  const [isTogether, setTogether] = useState(false);
  const [isWrapped, setWrapped] = useState(false);
  const [tried, setTried] = useState(attempt);
  useEffect(() => setTried(attempt), [attempt]);
  const which = useMemo<Which>(() => ({ id: sessionId, rank, attempt: tried || null }), [sessionId, rank, tried]);
  const { follower, news } = useFollower(which);
  const [isFollowing, setFollowing] = useState(true);
  const [text, setText] = useState("");
  const [at, setAt] = useState<number | null>(null);
  const search = useMemo(() => (follower ? new Search(follower.lines, text) : null), [follower, text]);
  const [rounds, searchOn] = useReducer((count: number) => count + 1, 0);
  const hits = useMemo(() => search?.found(SEARCH_CHARACTERS) ?? [], [search, news, rounds]);
  const places = useMemo(() => (follower ? linesOf(hits, follower.lines) : []), [follower, hits]);
  useEffect(() => {
    if (!search || search.isDone) return;
    const timer = setTimeout(searchOn);
    return () => clearTimeout(timer);
  }, [search, hits]);
  const go = (step: 1 | -1) => {
    setFollowing(false);
    setAt(next(hits, at ?? (step === 1 ? -1 : Infinity), step));
  };

  if (follower?.state === "refused") {
    return (
      <section className="panel stack" aria-label="Log">
        <h2>Log</h2>
        <p className="note">{follower.refusal}</p>
      </section>
    );
  }
  const isPrintless = follower?.state === "ended" && follower.offset === 0;
  return (
    <section className="panel stack log" aria-label="Log">
      <div className="row">
        <h2>Log</h2>
        {ranks > 1 ? (
          <Choice
            label="Rank"
            isBare
            value={isTogether ? ALL : String(rank)}
            options={[{ id: ALL, text: "All ranks" }, ...numbered("Rank", 0, ranks)]}
            onChange={(chosen) => {
              setTogether(chosen === ALL);
              if (chosen !== ALL) setRank(Number(chosen));
            }}
          />
        ) : null}
        {attempt > 1 ? <Numbered label="Attempt" from={1} count={attempt} value={tried} onChange={setTried} /> : null}
        <SearchField
          className="field search"
          aria-label="Search the log"
          value={text}
          onChange={(value) => {
            setText(value);
            setAt(null);
          }}
          onSubmit={() => go(1)}
        >
          <Input placeholder="Search, Enter for the next" />
        </SearchField>
        {text ? (
          <span className="row" role="status">
            <span>{search?.isDone ? countWords(places.at(-1) ?? 0, places[hits.indexOf(at ?? -1)]) : "searching"}</span>
            <Button className="button plain" aria-label="Previous hit" isDisabled={!hits.length} onPress={() => go(-1)}>
              ↑
            </Button>
            <Button className="button plain" aria-label="Next hit" isDisabled={!hits.length} onPress={() => go(1)}>
              ↓
            </Button>
          </span>
        ) : null}
        <span className="end row">
          <span className="quiet small">{follower ? `${statusText(follower)} · ${bytes(follower.offset)}` : ""}</span>
          <Check text="Wrap" isOn={isWrapped} onChange={setWrapped} />
          <Check text="Follow" isOn={isFollowing} onChange={setFollowing} />
          <Download which={which} end={follower?.offset ?? 0} name={name} />
        </span>
      </div>
      {isPrintless ? <p className="quiet">Nothing was printed.</p> : null}
      {follower?.lines.forgotten ? (
        <p className="quiet small">
          The first {follower.lines.forgotten} lines are no longer kept here; Download has them.
        </p>
      ) : null}
      {isTogether ? (
        <LogsTogether
          parts={Array.from({ length: ranks }, (_, at) => ({ id: sessionId, rank: at, label: String(at) }))}
          isGrowing={follower?.state === "following"}
        />
      ) : follower && !isPrintless ? (
        <LogScroll
          isWrapped={isWrapped}
          lines={follower.lines}
          news={news}
          isFollowing={isFollowing}
          onLeave={() => setFollowing(false)}
          at={at}
          hits={hits}
        />
      ) : null}
    </section>
  );
}

function countWords(count: number, place?: number): string {
  if (count === 0) return "not found";
  return `${place ? `${place} of ` : ""}${count} ${count === 1 ? "line" : "lines"}`;
}

function useFollower(which: Which): { follower: LogFollower | null; news: number } {
  const [news, tell] = useReducer((count: number) => count + 1, 0);
  const [follower, setFollower] = useState<LogFollower | null>(null);
  useEffect(() => {
    const own = new LogFollower(which, tell);
    setFollower(own);
    return () => own.stop();
  }, [which]);
  return { follower, news };
}
