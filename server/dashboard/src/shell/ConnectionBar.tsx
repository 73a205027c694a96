import { answered } from "../api/client";
import { connection } from "../api/feed";
import { useObservable } from "../api/observable";
import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";

const PATIENCE_MS = 1_000;
const ANSWERS_MS = 15_000;
const POLLING = "The server still answers queries, so this page is at most a minute old.";

/** Warns when the page is out of date, and since when; not for gaps under a second. */
export function ConnectionBar() {
  const { since } = useObservable(connection);
  const last = useObservable(answered);
  const now = useNow();
  const isPolling = last > since && now - last < ANSWERS_MS;
  const isLost = useIsStale();
  return (
    <div role="status" className={isLost ? "connection lost" : "connection"}>
      {isLost
        ? `Connection lost ${duration(now - since)} ago. ${isPolling ? POLLING : `This page is as of ${moment(since)}.`} Trying again …`
        : null}
    </div>
  );
}

export function useIsStale(): boolean {
  const { state, since } = useObservable(connection);
  const now = useNow();
  // Before it, if this computer's clock was set back meanwhile.
  return state === "lost" && (now - since >= PATIENCE_MS || now < since - PATIENCE_MS);
}

export function ConnectionDot() {
  const { state } = useObservable(connection);
  const words = { live: "live", connecting: "connecting", lost: "not connected" }[state];
  return (
    <span className={`dot ${state}`} title={`The page is ${words}.`}>
      <span aria-hidden="true">●</span> {words}
    </span>
  );
}
