import { Observable } from "../api/observable";

/** A list that the browser keeps, the newest item last. All tabs have the same: each change is made on the stored list. */
export class KeptList<T> extends Observable<readonly T[]> {
  /** Whether the browser has not stored the newest change: it is full, or stores nothing. */
  private isUnstored = false;

  /**
   * @param key where it is stored.
   * @param isItem tells the items from what an earlier version, or anything else, has stored.
   * @param most the most items that are kept.
   */
  constructor(
    private readonly key: string,
    private readonly isItem: (value: unknown) => value is T,
    private readonly most: number,
  ) {
    super([]);
    this.set(this.stored() ?? []);
    globalThis.addEventListener?.("storage", (event) => {
      if (!this.isUnstored && (event.key === key || event.key === null)) this.set(this.stored() ?? []);
    });
  }

  edit(change: (items: readonly T[]) => readonly T[]): void {
    const items = change((this.isUnstored ? null : this.stored()) ?? this.get()).slice(-this.most);
    this.set(items);
    try {
      globalThis.localStorage?.setItem(this.key, JSON.stringify(items));
      this.isUnstored = false;
    } catch {
      this.isUnstored = true;
    }
  }

  /** The stored list; null if the browser stores none. */
  private stored(): readonly T[] | null {
    try {
      const found: unknown = JSON.parse(globalThis.localStorage?.getItem(this.key) ?? "null");
      return Array.isArray(found) ? found.filter(this.isItem) : null;
    } catch {
      return null;
    }
  }
}
