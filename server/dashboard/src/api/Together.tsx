import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  type ReactNode,
} from "react";

/** A part slower than this appears by itself, and the content below it moves. */
const WAIT_MS = 3_000;

/** Notes a part that is loading. Returns the function that ends this. */
type Note = () => () => void;

const Group = createContext<Note | null>(null);

/** Within `Together`: whether this part is loading. */
export function useLoading(isLoading: boolean): void {
  const note = useContext(Group);
  // In the commit that shows the loaded content, so that its parts are noted before this one is done.
  useLayoutEffect(() => (isLoading ? note?.() : undefined), [isLoading, note]);
}

/** Shown while a part's code is loading. */
export function Loading(): null {
  useLoading(true);
  return null;
}

interface Props {
  readonly className: string;
  readonly children: ReactNode;
}

/** Parts that are shown when all of them have loaded: none of them moves another one away from the pointer. */
export function Together({ className, children }: Props) {
  const [isShown, setShown] = useState(false);
  const loading = useRef(new Set<object>());
  const showIfLoaded = useCallback(() => {
    if (loading.current.size === 0) setShown(true);
  }, []);
  const note = useCallback(() => {
    const part = {};
    loading.current.add(part);
    return () => {
      loading.current.delete(part);
      queueMicrotask(showIfLoaded);
    };
  }, [showIfLoaded]);
  useEffect(() => {
    showIfLoaded();
    const timer = setTimeout(() => setShown(true), WAIT_MS);
    return () => clearTimeout(timer);
  }, [showIfLoaded]);
  return (
    <Group value={note}>
      <div className={isShown ? className : `${className} loading`} aria-busy={!isShown}>
        {children}
      </div>
    </Group>
  );
}
