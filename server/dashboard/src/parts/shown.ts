import { useEffect, useRef } from "react";

/** Tells whether the component is still shown. The answer to a slow action may come after its form was left. */
export function useIsShown(): () => boolean {
  const isShown = useRef(false);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  return () => isShown.current;
}
