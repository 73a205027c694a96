import { useEffect } from "react";

/** The text typed into a form that was left before it was sent; null if this tab has none. */
export function storedDraft(form: string): unknown {
  try {
    return JSON.parse(globalThis.sessionStorage?.getItem(keyOf(form)) ?? "null");
  } catch {
    return null;
  }
}

/** Stores the draft of a form in this tab; null removes it. */
export function storeDraft(form: string, draft: unknown): void {
  try {
    if (draft === null) globalThis.sessionStorage?.removeItem(keyOf(form));
    else globalThis.sessionStorage?.setItem(keyOf(form), JSON.stringify(draft));
  } catch {
    return;
  }
}

/** Stores the draft of a form while it is edited. */
export function useStoredDraft(form: string, draft: unknown): void {
  useEffect(() => storeDraft(form, draft), [form, JSON.stringify(draft)]);
}

function keyOf(form: string): string {
  return `aliquot:draft/${form}`;
}
