import { useState } from "react";
import type { PolicyPartsFragment } from "../../generated/graphql";
import { storedDraft, useStoredDraft } from "../../parts/drafts";
import { changesOf, numberOf, textOf, valuesOf, type Change, type Values } from "./settings";

/** The edits that are stored, and the version they were made on. */
interface Stored extends Pick<PolicyPartsFragment, "version" | "changed_at"> {
  readonly edits: Values;
}

/**
 * The edited values and the version they are based on; stored under `name` while there are edits. A newer version replaces them only if no edit is lost; otherwise
 * `isBehind` is true until `catchUp` applies the same edits to the newer version.
 */
export function useDraft(newest: PolicyPartsFragment, name: string) {
  const [start] = useState(() => restored(newest, storedDraft(name) as Stored | null));
  const [base, setBase] = useState(start.base);
  const [draft, setDraft] = useState(start.draft);
  const before = valuesOf(base);
  const moved = movedTo(valuesOf(newest), before, draft);
  const isBehind = newest.version !== base.version;
  const catchUp = () => {
    setBase(newest);
    setDraft(moved);
  };
  // Nothing is edited, or the newer version has all edits, because it was saved here.
  if (isBehind && changesOf(valuesOf(newest), moved).length === 0) catchUp();
  const putBack = () => {
    setBase(newest);
    setDraft(valuesOf(newest));
  };
  const changes = changesOf(before, draft);
  useStoredDraft(name, changes.length ? storedOf(base, changes) : null);
  return { base, draft, setDraft, changes, isBehind, catchUp, putBack };
}

export function storedOf({ version, changed_at }: PolicyPartsFragment, changes: readonly Change[]): Stored {
  return { version, changed_at, edits: Object.fromEntries(changes.map(({ path, to }) => [path, to])) };
}

/** The stored edits of the settings that there are, on the newest values, as made on their own version. */
export function restored(newest: PolicyPartsFragment, stored: Stored | null) {
  const draft = valuesOf(newest);
  if (stored === null) return { base: newest, draft };
  const { version, changed_at, edits } = stored;
  const known = Object.entries(edits).filter(([path]) => path in draft);
  return { base: { ...newest, version, changed_at }, draft: { ...draft, ...Object.fromEntries(known) } };
}

/** The edits of the old values, applied to the new ones. */
export function movedTo(now: Values, before: Values, draft: Values): Values {
  const own = Object.entries(draft).filter(([path, value]) => value !== before[path]);
  return { ...now, ...Object.fromEntries(own.map(([path, value]) => [path, normalized(path, value)])) };
}

/** A value as `valuesOf` writes it. */
function normalized(path: string, value: string): string {
  const number = numberOf(path, value);
  return value.trim() && Number.isFinite(number) ? textOf(path, number) : value;
}
