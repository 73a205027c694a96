import { useEffect, useState } from "react";

const PAUSE_MS = 250;

/** A value once it has not changed for a moment: nobody is asked in the middle of a word, or on the way elsewhere. */
export function useSettled<T>(value: T, first: T = value): T {
  const [settled, settle] = useState(first);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
