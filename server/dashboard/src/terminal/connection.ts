import { frame, FRAME_BYTES_MAX, Frames, type Frame } from "./frames";
import { newName } from "./names";

export type TerminalState = "opening" | "open" | "lost" | "ended";

export interface TerminalName {
  readonly sessionId: string;
  readonly rank: number;
  /** Connections with one name see one terminal. */
  readonly name: string;
  /** Watch only: input is not sent, and the size is that of the other viewers. */
  readonly isReadOnly: boolean;
}

export interface Screen {
  size(): { readonly rows: number; readonly columns: number };
  /** Calls back when the data is drawn. */
  write(data: Uint8Array, onDrawn: () => void): void;
  onState(state: TerminalState, words: string): void;
}

const AGAIN_MS = 200;
const AGAIN_MS_MAX = 5_000;
/** A terminal without a connection is kept for this long. */
const GRACE_MS = 600_000;
/** Output that is not drawn yet. Above it the connection is closed; it is opened again when all is drawn. */
const BEHIND_BYTES_MAX = 4 << 20;
/** Close codes after which the same request is refused again. */
const REFUSED: ReadonlySet<number> = new Set([1009, 4400, 4401, 4430]);

/** Connects a screen to a terminal of a session, and again after a lost connection, without losing or repeating input. */
export class TerminalConnection {
  /** Its input is counted by this name, over all its connections. */
  private readonly viewer = newName();
  private socket: WebSocket | null = null;
  private frames = new Frames();
  /** Output bytes received; null before the first connection. */
  private offset: number | null = null;
  /** Typed and not confirmed by the terminal. */
  private input: Uint8Array = new Uint8Array();
  private confirmed = 0;
  private sent = 0;
  private isAttached = false;
  private isOver = false;
  private behind = 0;
  private waitMs = AGAIN_MS;
  private lostAt = 0;
  private refusal = "";
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly terminal: TerminalName,
    private readonly screen: Screen,
  ) {
    this.open();
  }

  type(text: string): void {
    if (this.terminal.isReadOnly || this.isOver) return;
    this.input = joined(this.input, new TextEncoder().encode(text));
    this.sendInput();
  }

  resize(): void {
    if (!this.isAttached || this.terminal.isReadOnly) return;
    const { rows, columns } = this.screen.size();
    const size = new DataView(new ArrayBuffer(4));
    size.setUint16(0, rows);
    size.setUint16(2, columns);
    this.send(frame("r", new Uint8Array(size.buffer)));
  }

  /** Connects again after the network was away: the present connection may have ended without a sign. */
  renew(): void {
    const { socket } = this;
    if (this.isOver || socket === null) return;
    this.leave(socket);
    this.open();
  }

  close(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  private open(): void {
    const { sessionId, rank, name, isReadOnly } = this.terminal;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/sessions/${encodeURIComponent(sessionId)}/stream`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.timer = undefined;
    this.frames = new Frames();
    this.isAttached = false;
    this.refusal = "";
    socket.onopen = () => {
      const asked = { name, viewer: this.viewer, ...this.screen.size(), offset: this.offset, read_only: isReadOnly };
      socket.send(JSON.stringify({ rank, terminal: asked }));
    };
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      if (data instanceof ArrayBuffer) for (const one of this.frames.take(new Uint8Array(data))) this.take(one);
      else this.hear(String(data));
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.socket) this.lost(REFUSED.has(code), reason);
    };
  }

  private hear(text: string): void {
    if (text === "end") this.end("The session has ended.");
    else this.refusal = (JSON.parse(text) as { message?: string }).message ?? "";
  }

  private lost(isRefused: boolean, reason: string): void {
    this.socket = null;
    this.isAttached = false;
    if (this.isOver) return;
    this.lostAt ||= Date.now();
    if (isRefused || Date.now() - this.lostAt > GRACE_MS) {
      this.end(this.refusal || reason || "The connection was lost.");
      return;
    }
    this.screen.onState("lost", "Connection lost, trying again");
    this.timer = setTimeout(() => this.open(), this.waitMs);
    this.waitMs = Math.min(2 * this.waitMs, AGAIN_MS_MAX);
  }

  private take({ kind, content }: Frame): void {
    switch (kind) {
      case "o":
        this.offset = (this.offset ?? 0) + content.length;
        this.draw(content);
        break;
      case "a":
        this.attached(factsOf(content));
        break;
      case "k":
        this.confirm(Number(new DataView(content.buffer, content.byteOffset).getBigUint64(0)));
        break;
      case "x":
        this.end(`Ended with exit code ${factsOf(content)["code"]}.`);
        break;
      case "f":
        this.end(String(factsOf(content)["message"]));
        break;
    }
  }

  private attached(facts: Record<string, unknown>): void {
    const [offset, input] = [Number(facts["offset"]), Number(facts["input"])];
    const hasLost = this.offset !== null && offset > this.offset;
    if (this.offset === null) this.confirmed = input;
    this.offset = offset;
    this.confirm(input);
    this.sent = this.confirmed;
    this.isAttached = true;
    this.lostAt = 0;
    this.waitMs = AGAIN_MS;
    const words = [
      facts["recorded"] ? "The output of this terminal is recorded on its node." : "",
      hasLost ? "Some output was skipped." : "",
    ];
    this.screen.onState("open", words.join(" ").trim());
    this.sendInput();
    this.resize();
  }

  private confirm(count: number): void {
    this.input = this.input.slice(Math.max(0, count - this.confirmed));
    this.confirmed = Math.max(count, this.confirmed);
    // Agents of earlier versions count the input of all viewers together.
    this.sent = Math.max(this.sent, this.confirmed);
  }

  private sendInput(): void {
    while (this.isAttached && this.sent < this.confirmed + this.input.length) {
      const first = this.sent - this.confirmed;
      const piece = this.input.slice(first, first + FRAME_BYTES_MAX);
      this.sent += piece.length;
      this.send(frame("i", piece));
    }
  }

  private draw(content: Uint8Array): void {
    this.behind += content.length;
    this.screen.write(content, () => {
      this.behind -= content.length;
      if (this.behind === 0 && this.socket === null && this.timer === undefined && !this.isOver) this.open();
    });
    if (this.behind <= BEHIND_BYTES_MAX) return;
    // A browser cannot stop reading: the output that the terminal keeps meanwhile is shown afterwards.
    this.timer = undefined;
    if (this.socket) this.leave(this.socket);
  }

  private leave(socket: WebSocket): void {
    this.socket = null;
    this.isAttached = false;
    socket.close();
  }

  private send(data: Uint8Array<ArrayBuffer>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(data);
  }

  private end(words: string): void {
    this.close();
    this.screen.onState("ended", words);
  }
}

function factsOf(content: Uint8Array): Record<string, unknown> {
  return JSON.parse(new TextDecoder().decode(content)) as Record<string, unknown>;
}

function joined(one: Uint8Array, two: Uint8Array): Uint8Array {
  const both = new Uint8Array(one.length + two.length);
  both.set(one);
  both.set(two, one.length);
  return both;
}
