import { Socket } from "../api/socket";
import { SessionLogDocument } from "../generated/graphql";
import type { Which } from "./following";
import { isRefusal, RETRY_MS } from "./refusals";

const socket = new Socket();
/** Attempts without progress after which it fails. */
const TRIES_MAX = 30;
/** Characters per piece that is passed to the browser, which keeps it on disk. */
const PIECE = 4_000_000;

/**
 * The whole log up to a byte, for a file; resumes after lost connections.
 *
 * @param onProgress is called with the number of bytes read.
 */
export async function wholeLog(which: Which, end: number, onProgress: (bytes: number) => void): Promise<Blob> {
  const file = new Gathered();
  for (let offset = 0, tries = 0; ; tries += 1) {
    try {
      for await (const { session_logs: chunk } of socket.follow(SessionLogDocument, { ...which, offset })) {
        file.add(chunk.text);
        tries = chunk.next_offset > offset ? 0 : tries;
        offset = chunk.next_offset;
        onProgress(offset);
        if (chunk.at_end || offset >= end) return file.blob();
      }
    } catch (error) {
      if (isRefusal(error)) throw error;
    }
    if (tries >= TRIES_MAX) throw new Error("The connection was lost.");
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

class Gathered {
  private readonly pieces: Blob[] = [];
  private texts: string[] = [];
  private size = 0;

  add(text: string): void {
    this.texts.push(text);
    this.size += text.length;
    if (this.size >= PIECE) this.hand();
  }

  blob(): Blob {
    this.hand();
    return new Blob(this.pieces, { type: "text/plain;charset=utf-8" });
  }

  private hand(): void {
    this.pieces.push(new Blob(this.texts));
    this.texts = [];
    this.size = 0;
  }
}
