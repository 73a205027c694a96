import { useCallback, useEffect, useRef, useState } from "react";
import { Refusal } from "./client";
import type { Fault } from "./faults";
import { onEvent, type Event } from "./feed";
import { seen } from "./seen";
import { shared } from "./sharing";
import { clockOffset } from "./time";
import { useLoading } from "./Together";

export interface Live<T> {
  readonly data: T | null;
  readonly fault: Fault | null;
  /** Time of `data`, milliseconds since the epoch. */
  readonly at: number | null;
  readonly refresh: () => void;
}

interface Options {
  /** Interval of refreshes while the page is visible. */
  readonly everyMs?: number;
  /** Whether `load` already keeps the identity of unchanged parts. */
  readonly isShared?: boolean;
  /** The events that trigger a refresh; none by default. */
  readonly wants?: (event: Event) => boolean;
}

const GATHER_MS = 200;

/** The result of `load`, refreshed. The last result stays while the next is fetched, and if that fails. */
export function useLive<T>(load: () => Promise<T>, key: string, options: Options = {}): Live<T> {
  const [state, setState] = useState<Omit<Live<T>, "refresh"> & { key: string }>(() => ({ ...NOTHING, key }));
  const latest = useRef({ load, options });
  latest.current = { load, options };
  const refresh = useRef<() => void>(() => undefined);

  useEffect(() => {
    const asking = new Asking(async () => {
      try {
        const data = await latest.current.load();
        if (asking.isOver) return;
        setState((old) => ({
          key,
          data: latest.current.options.isShared ? data : shared(old.key === key ? old.data : null, data),
          fault: null,
          at: Date.now(),
        }));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (asking.isOver) return;
        setState((old) => ({ ...(old.key === key ? old : NOTHING), key, fault: error.fault }));
      }
    });
    refresh.current = () => asking.soon(0);
    asking.soon(0);
    const stop = onEvent((event) => {
      if (event === "reconnected" || latest.current.options.wants?.(event)) asking.soon(GATHER_MS);
    });
    const refreshVisible = () => seen.get() && asking.soon(0);
    const unsee = seen.watch(refreshVisible);
    // What was asked for by a time, such as the last hour, was asked for by the wrong one.
    const unclock = clockOffset.watch(refresh.current);
    const timer = options.everyMs ? setInterval(refreshVisible, options.everyMs) : undefined;
    return () => {
      asking.isOver = true;
      stop();
      unsee();
      unclock();
      clearInterval(timer);
    };
  }, [key, options.everyMs]);

  const again = useCallback(() => refresh.current(), []);
  const current = state.key === key ? state : NOTHING;
  useLoading(current.at === null && current.fault === null);
  return { data: current.data as T | null, fault: current.fault, at: current.at, refresh: again };
}

const NOTHING = { data: null, fault: null, at: null };

/** Runs one request at a time; requests made meanwhile are combined into one afterwards. */
class Asking {
  isOver = false;
  private isBusy = false;
  private isWanted = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly once: () => Promise<void>) {}

  soon(ms: number): void {
    if (this.timer !== undefined || this.isOver) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.run();
    }, ms);
  }

  private async run(): Promise<void> {
    if (this.isBusy) {
      this.isWanted = true;
      return;
    }
    this.isBusy = true;
    try {
      await this.once();
    } finally {
      this.isBusy = false;
      if (this.isWanted) {
        this.isWanted = false;
        this.soon(GATHER_MS);
      }
    }
  }
}
