import { useCallback, useState } from "react";

const watched = new WeakMap<Element, (isIn: boolean) => void>();
let observer: IntersectionObserver | undefined;

/** A ref for an element, and whether the element is in view. One observer for all, as there may be thousands. */
export function useInView(): readonly [(element: Element | null) => (() => void) | undefined, boolean] {
  const [isIn, setIn] = useState(false);
  const watch = useCallback((element: Element | null) => {
    if (!element) return undefined;
    observer ??= new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) watched.get(target)?.(isIntersecting);
    });
    watched.set(element, setIn);
    observer.observe(element);
    return () => observer?.unobserve(element);
  }, []);
  return [watch, isIn];
}
