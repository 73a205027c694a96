import { useEffect, useSyncExternalStore } from "react";
import { Observable, useObservable } from "../api/observable";
import { serverNow } from "../api/time";

const now = new Observable(serverNow());
const MINUTE_MS = 60_000;
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** The time, updated once a second for all components together: use it in the smallest part that shows it. */
export function useNow(): number {
  useTicks();
  return useObservable(now);
}

/** The begin of the present minute, for what needs no more: it renders once a minute. */
export function useMinute(): number {
  useTicks();
  return useSyncExternalStore(now.watch, minute);
}

/** The time in a row of a long table: once a second only in view, as a browser lays out the table anew each time. */
export function useNowInView(isInView: boolean): number {
  useTicks();
  return useSyncExternalStore(now.watch, isInView ? now.get : minute);
}

function minute(): number {
  return now.get() - (now.get() % MINUTE_MS);
}

function useTicks(): void {
  useEffect(() => {
    readers += 1;
    timer ??= setInterval(() => now.set(serverNow()), 1_000);
    return () => {
      readers -= 1;
      if (readers === 0) {
        clearInterval(timer);
        timer = undefined;
      }
    };
  }, []);
}
