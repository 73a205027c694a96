import { Closed } from "./socket";

/** A subscription whose items are numbered: who says the last number that he knows misses nothing. */
export interface Numbered<Item> {
  /** Begins after a number; null: with how things stand. */
  readonly open: (after: number | null) => AsyncIterable<Item>;
  /** Takes an item in; the next one waits for that. Returns its number. */
  readonly take: (item: Item) => number | Promise<number>;
  /** It was cut off or refused, and is opened again in a moment. */
  readonly onLost: () => void;
}

const WAIT_FIRST_MS = 250;
const WAIT_MAX_MS = 5_000;

/** Follows until `signal` is aborted, over lost connections, from the last number on. */
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
      // A refusal may be of a number that is no longer known.
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
