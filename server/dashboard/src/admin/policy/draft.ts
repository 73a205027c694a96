import { useState } from "react";
import type { PolicyPartsFragment } from "../../generated/graphql";
import { changesOf, valuesOf, type Values } from "./settings";

/**
 * What is typed, on the version that it was typed on. A newer version takes its place only where nothing of it would be
 * lost: otherwise `isBehind`, until `catchUp` puts the same changes on the newer one.
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
  // Nothing is typed, or all of it is in the newer version: it was saved from here.
  if (isBehind && changesOf(valuesOf(newest), moved).length === 0) catchUp();
  const putBack = () => {
    setBase(newest);
    setDraft(valuesOf(newest));
  };
  return { base, draft, setDraft, changes: changesOf(before, draft), isBehind, catchUp, putBack };
}

/** What was changed of the old values, on the new ones. */
export function movedTo(now: Values, before: Values, draft: Values): Values {
  const own = Object.entries(draft).filter(([path, value]) => value !== before[path]);
  return { ...now, ...Object.fromEntries(own.map(([path, value]) => [path, written(value)])) };
}

/** A number as the server writes it. */
function written(value: string): string {
  return value.trim() && Number.isFinite(Number(value)) ? String(Number(value)) : value;
}
