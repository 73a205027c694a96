import { expect, test, vi } from "vitest";
import { mayOpen } from "../src/identity/rights";
import { TerminalConnection } from "../src/terminal/connection";
import { frame, Frames } from "../src/terminal/frames";

test("frames are parsed from a stream cut into any pieces", () => {
  const text = new TextEncoder();
  const cuts: readonly (readonly [number, number])[] = [
    [1, 700],
    [2, 700],
    [6, 700],
    [65_536, 70_000],
    [Infinity, 70_000],
  ];
  for (const [size, length] of cuts) {
    const stream = [...frame("o", text.encode("one")), ...frame("x"), ...frame("o", new Uint8Array(length).fill(7))];
    const frames = new Frames();
    const found = [];
    for (let at = 0; at < stream.length; at += size)
      found.push(...frames.take(new Uint8Array(stream.slice(at, at + size))));
    expect(found.map(({ kind, content }) => [kind, content.length])).toEqual([
      ["o", 3],
      ["x", 0],
      ["o", length],
    ]);
    expect(new TextDecoder().decode(found[0]?.content)).toBe("one");
  }
});

test("owners, operators and members of a shared session may open a terminal, viewers not", () => {
  const me = (role: "viewer" | "user" | "operator") => ({
    name: "ada",
    role,
    projects: ["vision"],
    priority_max: "normal" as const,
  });
  const roles = [me("viewer"), me("user"), me("operator")];
  const own = { owner: "ada", project: "vision", shares_access: false };
  expect(roles.map((one) => mayOpen(one, own))).toEqual([false, true, true]);
  expect(roles.map((one) => mayOpen(one, { ...own, owner: "ben" }))).toEqual([false, false, true]);
  expect(roles.map((one) => mayOpen(one, { ...own, owner: "ben", shares_access: true }))).toEqual([false, true, true]);
  expect(mayOpen(null, own)).toBe(false);
});

/** A socket that records the sent data. */
class FakeSocket {
  static readonly OPEN = 1;
  static readonly opened: FakeSocket[] = [];
  readonly readyState = FakeSocket.OPEN;
  readonly texts: string[] = [];
  readonly typed: string[] = [];
  onopen = () => {};
  onmessage: (message: { data: ArrayBuffer }) => void = () => {};
  onclose: (closed: { code: number; reason: string }) => void = () => {};

  constructor() {
    FakeSocket.opened.push(this);
  }

  send(data: string | Uint8Array): void {
    if (typeof data === "string") this.texts.push(data);
    else
      for (const { kind, content } of new Frames().take(data))
        if (kind === "i") this.typed.push(new TextDecoder().decode(content));
  }

  close(): void {}

  attach(input: number): void {
    this.onopen();
    const facts = { offset: 0, input, recorded: false, viewers: 1 };
    this.onmessage({ data: frame("a", new TextEncoder().encode(JSON.stringify(facts))).buffer });
  }

  confirm(count: bigint): void {
    const content = new DataView(new ArrayBuffer(8));
    content.setBigUint64(0, count);
    this.onmessage({ data: frame("k", new Uint8Array(content.buffer)).buffer });
  }
}

test("a terminal sends nothing twice and keeps its name when it reconnects", () => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("location", { protocol: "http:", host: "here" });
  const screen = { size: () => ({ rows: 24, columns: 80 }), write: () => {}, onState: () => {} };
  const connection = new TerminalConnection({ sessionId: "ses_1", rank: 0, name: "one", isReadOnly: false }, screen);
  const first = FakeSocket.opened[0];
  first?.attach(0);
  connection.type("one");
  first?.confirm(3n);
  connection.type("two");
  first?.confirm(60n); // by an agent that counts the input of all viewers together
  connection.type("three");
  expect(first?.typed).toEqual(["one", "two", "three"]);
  first?.onclose({ code: 1006, reason: "" });
  vi.runOnlyPendingTimers();
  const second = FakeSocket.opened[1];
  second?.attach(60);
  expect(second?.typed).toEqual(["three"]);
  connection.type("four");
  connection.renew(); // the network is back, and the second connection gives no sign
  const third = FakeSocket.opened[2];
  third?.attach(65);
  expect(third?.typed).toEqual(["four"]);
  second?.onclose({ code: 1006, reason: "" });
  vi.runOnlyPendingTimers();
  expect(FakeSocket.opened.length).toBe(3);
  const names = [first, second, third].map((one) => JSON.parse(one?.texts[0] ?? "{}").terminal.viewer as string);
  expect(names[0]).toMatch(/^[0-9a-f]{12}$/);
  expect(names).toEqual([names[0], names[0], names[0]]);
  connection.close();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});
