import { useSyncExternalStore } from "react";

/** A value that components can watch. */
export class Observable<T> {
  private readonly watchers = new Set<() => void>();

  constructor(private value: T) {}

  readonly get = (): T => this.value;

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const watcher of [...this.watchers]) watcher();
  }
}

export function useObservable<T>(source: Observable<T>): T {
  return useSyncExternalStore(source.watch, source.get);
}
