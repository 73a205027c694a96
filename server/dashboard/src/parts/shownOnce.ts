import { Observable, useObservable } from "../api/observable";
import { user } from "../api/presence";

/**
 * What the server says only once, such as a new key, until its dialogue is closed. It outlives the page and the sign-in;
 * the browser asks before a reload, which ends it.
 */
export class ShownOnce<T> extends Observable<{ readonly owner: string; readonly value: T } | null> {
  constructor() {
    super(null);
  }

  show(value: T): void {
    this.set({ owner: user.get(), value });
    globalThis.addEventListener("beforeunload", askToStay);
  }

  /** What the signed-in user has been shown and has not closed; null if there is nothing. */
  ofUser(): T | null {
    const shown = this.get();
    return shown?.owner === user.get() ? shown.value : null;
  }

  close(): void {
    this.set(null);
    globalThis.removeEventListener("beforeunload", askToStay);
  }
}

/** `ofUser`, watched. */
export function useShownOnce<T>(source: ShownOnce<T>): T | null {
  useObservable(source);
  return source.ofUser();
}

function askToStay(event: BeforeUnloadEvent): void {
  event.preventDefault();
}
