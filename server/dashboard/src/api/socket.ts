import { createClient } from "graphql-ws";
import { stringifyDocument, type AnyVariables, type TypedDocumentNode } from "@urql/core";

export class Closed extends Error {
  constructor(readonly code: number) {
    super(`The connection was closed (${code}).`);
  }
}

/** An error of the server for a subscription. */
export class SubscriptionFault extends Error {
  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
}

const PING_MS = 10_000;
const PONG_MS = 5_000;
const CONNECT_MS = 10_000;

/**
 * A WebSocket for subscriptions, opened when it is needed. It does not retry: the caller knows from where to resume, and
 * subscribes again.
 */
export class Socket {
  private timer: ReturnType<typeof setTimeout> | undefined;

  private readonly client = createClient({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`,
    retryAttempts: 0,
    keepAlive: PING_MS,
    connectionAckWaitTimeout: PING_MS,
    on: {
      // A frozen server, or one behind a dead link, neither answers nor sends a close frame.
      connecting: () => this.expectAnswer(CONNECT_MS),
      connected: () => {
        clearTimeout(this.timer);
        this.onOpen();
      },
      ping: (received) => {
        if (!received) this.expectAnswer(PONG_MS);
      },
      pong: () => clearTimeout(this.timer),
      closed: () => clearTimeout(this.timer),
    },
  });

  constructor(private readonly onOpen: () => void = () => undefined) {}

  private expectAnswer(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.client.terminate(), ms);
  }

  /**
   * Yields until the server completes or `signal` is aborted; throws when the connection is lost. Leaving the loop
   * unsubscribes; while the next item is awaited, only `signal` does.
   */
  async *follow<Data, Variables extends AnyVariables>(
    document: TypedDocumentNode<Data, Variables>,
    variables: Variables,
    signal?: AbortSignal,
  ): AsyncGenerator<Data, void, undefined> {
    if (signal?.aborted) return;
    const results = this.client.iterate<Data>({
      query: stringifyDocument(document),
      variables: variables as Record<string, unknown>,
    });
    const leave = () => void results.return?.();
    signal?.addEventListener("abort", leave);
    try {
      for await (const result of results) {
        if (result.errors?.[0]) throw faultOf(result.errors[0]);
        if (result.data) yield result.data;
      }
    } catch (error) {
      if (isClose(error)) throw new Closed(error.code);
      throw error instanceof Error ? error : faultOf(Array.isArray(error) ? error[0] : error);
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }
}

function isClose(error: unknown): error is { code: number } {
  return typeof error === "object" && error !== null && "code" in error && "reason" in error;
}

function faultOf(error: unknown): SubscriptionFault {
  const { message, extensions } = (error ?? {}) as { message?: unknown; extensions?: { code?: unknown } };
  return new SubscriptionFault(String(message ?? "The connection was lost."), String(extensions?.code ?? ""));
}
