import { change, Refusal } from "../api/client";
import { Observable } from "../api/observable";
import {
  CancelSessionDocument,
  ChangeSessionsDocument,
  ExtendSessionDocument,
  HoldSessionDocument,
  KeepSessionDocument,
  ReleaseSessionDocument,
  RetrySessionDocument,
  SetPriorityDocument,
  UpdateSessionDocument,
  type ChangeSessionsMutationVariables,
} from "../generated/graphql";
import { inLabels } from "../format/words";
import { showNotice } from "../parts/notices";
import { nameOf, summary } from "./standing";
import { inputOf, type Remedy } from "./remedies";

type Outcome = { readonly __typename: string } | { readonly __typename: string; readonly message: string };

export const PRIORITIES = ["low", "normal", "high", "critical"] as const;
export type Priority = (typeof PRIORITIES)[number];

export const cancel = (id: string) =>
  carryOut("Canceled.", async () => (await change(CancelSessionDocument, { id })).cancel_session);

export const giveBack = (id: string) =>
  carryOut("Given back.", async () => (await change(CancelSessionDocument, { id })).cancel_session);

export const keep = (id: string) =>
  carryOut("Noted that it is still needed.", async () => (await change(KeepSessionDocument, { id })).keep_session);

export const extend = (id: string, seconds: number) =>
  carryOut(
    "Its time limit is later now.",
    async () => (await change(ExtendSessionDocument, { id, seconds })).extend_session,
  );

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

/** Applies a remedy. True if it succeeded. */
export function applyRemedy(id: string, remedy: Remedy): Promise<boolean> {
  const input = inputOf(id, remedy);
  if (!input) return release(id);
  return carryOut(
    `Changed: ${remedy.summary}.`,
    async () => (await change(UpdateSessionDocument, { input })).update_session,
  );
}

/**
 * Runs an action and shows its outcome. True if it succeeded.
 *
 * @param labels of the form, by the API's names of its fields, for refusals.
 */
export async function carryOut(
  done: string,
  act: () => Promise<Outcome>,
  labels: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  try {
    const outcome = await act();
    if ("message" in outcome) {
      showNotice({ tone: "bad", text: inLabels(outcome.message, labels) });
      return false;
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showNotice({ tone: "bad", text: withDoubt(error) });
    return false;
  }
  showNotice({ tone: "good", text: done });
  return true;
}

interface Target {
  readonly id: string;
  readonly name: string | null;
}

export const cancelAll = (targets: readonly Target[]) => carryOutAll("Canceled", targets, { action: "cancel" });

export const holdAll = (targets: readonly Target[]) => carryOutAll("Held", targets, { action: "hold" });

export const releaseAll = (targets: readonly Target[]) => carryOutAll("Released", targets, { action: "release" });

export const retryAll = (targets: readonly Target[]) => carryOutAll("Queued again", targets, { action: "retry" });

export const prioritise = (targets: readonly Target[], priority: Priority) =>
  carryOutAll(`Priority ${priority}`, targets, { action: "set_priority", priority });

/** How far an action on several sessions is, like `Canceled: 340 of 2000 …`; null while there is none. */
export const progress = new Observable<string | null>(null);

/** Resolves when there is no action on several sessions. */
export async function whenDone(): Promise<void> {
  if (progress.get() === null) return;
  await new Promise<void>((resolve) => {
    const stop = progress.watch(() => {
      if (progress.get() !== null) return;
      stop();
      resolve();
    });
  });
}

/** Targets of one request. */
const TOGETHER = 250;

type Deed = Omit<ChangeSessionsMutationVariables, "ids">;

/**
 * Does something to each target and shows one outcome for all. True if each succeeded. Without a server or a sign-in the
 * others are not tried.
 */
async function carryOutAll(done: string, targets: readonly Target[], deed: Deed): Promise<boolean> {
  const refused: string[] = [];
  for (let first = 0; first < targets.length; first += TOGETHER) {
    const some = targets.slice(first, first + TOGETHER);
    progress.set(`${done}: ${first} of ${targets.length} …`);
    try {
      refused.push(...(await refusals(some, deed)));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refused.push(...some.map((one) => about(one, withDoubt(error))));
      if (error.fault.kind === "refused") continue;
      refused.push(...targets.slice(first + some.length).map((one) => about(one, error.message)));
      break;
    }
  }
  progress.set(null);
  showNotice({ tone: refused.length ? "bad" : "good", text: summary(done, targets.length, refused) });
  return refused.length === 0;
}

/** Does something to targets by one request; why it was refused, for each of those where it was. */
async function refusals(targets: readonly Target[], deed: Deed): Promise<string[]> {
  const outcome = (await change(ChangeSessionsDocument, { ids: targets.map(({ id }) => id), ...deed })).change_sessions;
  if ("message" in outcome) return targets.map((one) => about(one, outcome.message));
  const messages = new Map(outcome.results.map(({ id, message }) => [id, message]));
  return targets.flatMap((one) => {
    const message = messages.get(one.id);
    return message ? [about(one, message)] : [];
  });
}

/** Why there is no answer, and whether the request may have been carried out. */
function withDoubt({ message, fault }: Refusal): string {
  return fault.mayHaveBegun ? `${message} It is unknown whether the action was carried out.` : message;
}

/** A message that names its session: the name is put before it unless it contains the id, which is shown as the name. */
function about(target: Target, message: string): string {
  return message.includes(target.id) ? message : `${nameOf(target)}: ${message}`;
}
