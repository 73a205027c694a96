import { useEffect, useState } from "react";
import { user } from "../api/presence";
import { storeDraft, storedDraft, useStoredDraft } from "./drafts";

/**
 * The state of a form in a dialogue. It outlives the sign-in and a reload, but not the dialogue.
 *
 * @param form the name of the form, to which that of the user is added.
 */
export function useFormState<T>(form: string, first: T): readonly [T, (next: T) => void] {
  const [{ owner, name }] = useState(() => ({ owner: user.get(), name: formOfUser(form) }));
  const [state, setState] = useState<T>(() => (storedDraft(name) as T | null) ?? first);
  useStoredDraft(name, state);
  useEffect(
    () => () => {
      if (user.get() === owner) storeDraft(name, null);
    },
    [owner, name],
  );
  return [state, setState];
}

/** The state that a form in a dialogue had when the sign-in expired or the page was reloaded; null if there is none. */
export function storedFormState(form: string): unknown {
  return storedDraft(formOfUser(form));
}

function formOfUser(form: string): string {
  return `${form}/${user.get()}`;
}
