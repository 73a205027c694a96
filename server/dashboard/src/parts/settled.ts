import { useEffect, useState } from "react";

const PAUSE_MS = 250;

/** A debounced value: it follows once the value has not changed for `PAUSE_MS`. */
export function useSettled<T>(value: T, first: T = value): T {
  const [settled, settle] = useState(first);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
