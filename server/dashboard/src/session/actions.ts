import { change, Refusal } from "../api/client";
import {
  CancelSessionDocument,
  HoldSessionDocument,
  ReleaseSessionDocument,
  RetrySessionDocument,
  SetPriorityDocument,
} from "../generated/graphql";
import { tellAll } from "../parts/notices";

type Outcome = { readonly __typename: string } | { readonly __typename: string; readonly message: string };

export const PRIORITIES = ["low", "normal", "high", "critical"] as const;
export type Priority = (typeof PRIORITIES)[number];

export const cancel = (id: string) =>
  carryOut("Canceled.", async () => (await change(CancelSessionDocument, { id })).cancel_session);

export const hold = (id: string) =>
  carryOut("Held back, until it is released.", async () => (await change(HoldSessionDocument, { id })).hold_session);

export const release = (id: string) =>
  carryOut("Released.", async () => (await change(ReleaseSessionDocument, { id })).release_session);

export const retry = (id: string) =>
  carryOut("It waits to run again.", async () => (await change(RetrySessionDocument, { id })).retry_session);

export const setPriority = (id: string, priority: Priority, version: number) =>
  carryOut(
    `Priority is ${priority} now.`,
    async () => (await change(SetPriorityDocument, { id, priority, version })).update_session_priority,
  );

/** Does it, and says what came of it. True when it was done. */
export async function carryOut(done: string, act: () => Promise<Outcome>): Promise<boolean> {
  try {
    const outcome = await act();
    if ("message" in outcome) {
      tellAll({ tone: "bad", text: outcome.message });
      return false;
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    tellAll({ tone: "bad", text: `${error.message} Nothing is known of what came of it.` });
    return false;
  }
  tellAll({ tone: "good", text: done });
  return true;
}
