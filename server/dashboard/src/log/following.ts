import { Socket } from "../api/socket";
import { SessionLogDocument } from "../generated/graphql";
import { Lines } from "./lines";
import { unavailableReason, isRefusal, RETRY_MS } from "./refusals";

export interface Which {
  readonly id: string;
  readonly rank: number;
  readonly attempt: number | null;
}

export type LogState = "opening" | "following" | "lost" | "ended" | "refused";

const socket = new Socket();
const GATHER_MS = 80;

/**
 * Follows a log from its first byte to its end, resuming after lost connections, and reports at most every `GATHER_MS`.
 */
export class LogFollower {
  readonly lines = new Lines();
  state: LogState = "opening";
  refusal = "";
  /** Why it is lost, in the server's words; "" = the connection was lost. */
  unavailableReason = "";
  offset = 0;
  private readonly leaving = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly which: Which,
    private readonly onChange: () => void,
  ) {
    void this.run();
  }

  stop(): void {
    this.leaving.abort();
    clearTimeout(this.timer);
  }

  private async run(): Promise<void> {
    while (!this.leaving.signal.aborted) {
      try {
        if (await this.isRead()) return;
      } catch (error) {
        if (isRefusal(error)) return this.refuse(error);
        this.unavailableReason = unavailableReason(error);
      }
      await this.wait();
    }
  }

  /** True at the end of the log; false when the connection was lost. */
  private async isRead(): Promise<boolean> {
    const { signal } = this.leaving;
    const stream = socket.follow(SessionLogDocument, { ...this.which, offset: this.offset }, signal);
    for await (const { session_logs: chunk } of stream) {
      if (signal.aborted) return true;
      this.lines.append(chunk.text);
      this.offset = chunk.next_offset;
      this.state = chunk.at_end ? "ended" : "following";
      this.soon();
      if (chunk.at_end) return true;
    }
    return signal.aborted;
  }

  private async wait(): Promise<void> {
    this.state = "lost";
    this.soon();
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }

  private refuse(error: unknown): void {
    this.state = "refused";
    this.refusal = error instanceof Error ? error.message : "The log cannot be read.";
    this.soon();
  }

  private soon(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      if (!this.leaving.signal.aborted) this.onChange();
    }, GATHER_MS);
  }
}
