import { useState } from "react";
import type { PolicyPartsFragment } from "../../generated/graphql";
import { changesOf, numberOf, textOf, valuesOf, type Values } from "./settings";

/**
 * The edited values and the version they are based on. A newer version replaces them only if no edit is lost; otherwise
 * `isBehind` is true until `catchUp` applies the same edits to the newer version.
 */
export function useDraft(newest: PolicyPartsFragment) {
  const [base, setBase] = useState(newest);
  const [draft, setDraft] = useState<Values>(() => valuesOf(newest));
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
  return { base, draft, setDraft, changes: changesOf(before, draft), isBehind, catchUp, putBack };
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
