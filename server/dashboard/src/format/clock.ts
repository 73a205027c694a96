import { useEffect } from "react";
import { Observable, useObservable } from "../api/observable";

const now = new Observable(Date.now());
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** The time, updated once a second for all components together. */
export function useNow(): number {
  useEffect(() => {
    readers += 1;
    timer ??= setInterval(() => now.set(Date.now()), 1_000);
    return () => {
      readers -= 1;
      if (readers === 0) {
        clearInterval(timer);
        timer = undefined;
      }
    };
  }, []);
  return useObservable(now);
}
