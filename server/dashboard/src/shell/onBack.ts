import { useEffect, useRef } from "react";

/** Closes what is open over the page when Back or Forward in the browser leads to another one. */
export function useCloseOnBack(close: () => void): void {
  const latest = useRef(close);
  latest.current = close;
  useEffect(() => {
    const leave = () => latest.current();
    window.addEventListener("popstate", leave);
    return () => window.removeEventListener("popstate", leave);
  }, []);
}
