const underway = new Map<string, Promise<unknown>>();

/** Runs an action; while one of the same key is under way, its result instead, as after a double click. */
export function joined<Result>(key: string, act: () => Promise<Result>): Promise<Result> {
  const known = underway.get(key) as Promise<Result> | undefined;
  if (known) return known;
  const begun = act().finally(() => underway.delete(key));
  underway.set(key, begun);
  return begun;
}
