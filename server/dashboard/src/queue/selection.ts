import { useMemo, useState } from "react";
import type { Row } from "./loading";

export interface Selection {
  readonly ids: ReadonlySet<string>;
  readonly toggle: (id: string) => void;
  /** Selects these, or none of them if all of them are selected. */
  readonly toggleAll: (rows: readonly Row[]) => void;
  readonly clear: () => void;
}

type Ids = ReadonlySet<string>;
const NONE: Ids = new Set();

/** The selected sessions; a change of `scope` empties it. Its functions are the same until then. */
export function useSelection(scope: string): Selection {
  const [state, setState] = useState<{ readonly scope: string; readonly ids: Ids }>({ scope, ids: NONE });
  const deeds = useMemo(() => {
    const move = (step: (ids: Ids) => Iterable<string>) =>
      setState((old) => ({ scope, ids: new Set(step(old.scope === scope ? old.ids : NONE)) }));
    return {
      toggle: (id: string) => move((ids) => (ids.has(id) ? [...ids].filter((one) => one !== id) : [...ids, id])),
      toggleAll: (rows: readonly Row[]) =>
        move((ids) => (rows.every(({ id }) => ids.has(id)) ? [] : rows.map(({ id }) => id))),
      clear: () => move(() => []),
    };
  }, [scope]);
  const ids = state.scope === scope ? state.ids : NONE;
  return useMemo(() => ({ ids, ...deeds }), [ids, deeds]);
}
