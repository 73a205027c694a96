import { useEffect, useState } from "react";

const PAUSE_MS = 250;

/** A debounced value: it follows once the value has not changed for `pauseMs`. */
export function useSettled<T>(value: T, first: T = value, pauseMs: number = PAUSE_MS): T {
  const [settled, settle] = useState(first);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value, pauseMs]);
  return settled;
}
