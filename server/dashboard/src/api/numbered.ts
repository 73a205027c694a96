import { Closed } from "./socket";

/** A subscription with numbered items, which can be resumed after the last number without gaps. */
export interface Numbered<Item> {
  /** Starts after a number; null starts with a snapshot. */
  readonly open: (after: number | null) => AsyncIterable<Item>;
  /** Processes an item before the next one is read, and returns its number. */
  readonly take: (item: Item) => number | Promise<number>;
  /** The connection was lost or refused, and will be opened again. */
  readonly onLost: () => void;
}

const WAIT_FIRST_MS = 250;
const WAIT_MAX_MS = 5_000;

/** Follows until `signal` is aborted, and resumes after the last number when the connection is lost. */
export async function followNumbered<Item>(
  { open, take, onLost }: Numbered<Item>,
  { after: begin = null, signal }: { readonly after?: number | null; readonly signal?: AbortSignal } = {},
): Promise<void> {
  let after = begin;
  let wait = WAIT_FIRST_MS;
  while (!signal?.aborted) {
    const opened = Date.now();
    try {
      for await (const item of open(after)) {
        if (signal?.aborted) return;
        after = await take(item);
      }
    } catch (error) {
      // The server may refuse because the number is no longer kept.
      if (!(error instanceof Closed)) after = null;
    }
    if (signal?.aborted) return;
    onLost();
    if (Date.now() - opened > WAIT_MAX_MS) wait = WAIT_FIRST_MS;
    await pause(wait);
    wait = Math.min(wait * 2, WAIT_MAX_MS);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
