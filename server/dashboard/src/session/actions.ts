import { change, Refusal } from "../api/client";
import {
  CancelSessionDocument,
  HoldSessionDocument,
  ReleaseSessionDocument,
  RetrySessionDocument,
  SetPriorityDocument,
} from "../generated/graphql";
import { showNotice } from "../parts/notices";

type Outcome = { readonly __typename: string } | { readonly __typename: string; readonly message: string };

export const PRIORITIES = ["low", "normal", "high", "critical"] as const;
export type Priority = (typeof PRIORITIES)[number];

export const cancel = (id: string) =>
  carryOut("Canceled.", async () => (await change(CancelSessionDocument, { id })).cancel_session);

export const hold = (id: string) =>
  carryOut("Held, until it is released.", async () => (await change(HoldSessionDocument, { id })).hold_session);

export const release = (id: string) =>
  carryOut("Released.", async () => (await change(ReleaseSessionDocument, { id })).release_session);

export const retry = (id: string) =>
  carryOut("Queued to run again.", async () => (await change(RetrySessionDocument, { id })).retry_session);

export const setPriority = (id: string, priority: Priority, version: number) =>
  carryOut(
    `The priority is now ${priority}.`,
    async () => (await change(SetPriorityDocument, { id, priority, version })).update_session_priority,
  );

/** Runs an action and shows its outcome. True if it succeeded. */
export async function carryOut(done: string, act: () => Promise<Outcome>): Promise<boolean> {
  try {
    const outcome = await act();
    if ("message" in outcome) {
      showNotice({ tone: "bad", text: outcome.message });
      return false;
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showNotice({ tone: "bad", text: `${error.message} It is unknown whether the action was carried out.` });
    return false;
  }
  showNotice({ tone: "good", text: done });
  return true;
}
