import { Observable, useObservable } from "../api/observable";
import { user } from "../api/presence";

/**
 * What the server says only once, such as a new key, until its dialogue is closed. It outlives the page and the sign-in;
 * the browser asks before a reload, which ends it.
 */
export class ShownOnce<T> extends Observable<{ readonly owner: string; readonly value: T } | null> {
  private readonly askToStay = (event: BeforeUnloadEvent) => {
    if (this.ofUser() !== null) event.preventDefault();
  };

  constructor() {
    super(null);
  }

  /** @param owner the user who asked for it. */
  show(owner: string, value: T): void {
    this.set({ owner, value });
    globalThis.addEventListener("beforeunload", this.askToStay);
  }

  /** What the signed-in user has been shown and has not closed; null if there is nothing. */
  ofUser(): T | null {
    const shown = this.get();
    return shown?.owner === user.get() ? shown.value : null;
  }

  close(): void {
    this.set(null);
    globalThis.removeEventListener("beforeunload", this.askToStay);
  }
}

/** `ofUser`, watched. */
export function useShownOnce<T>(source: ShownOnce<T>): T | null {
  useObservable(source);
  return source.ofUser();
}
