import { change, Refusal } from "../api/client";
import { Observable } from "../api/observable";
import {
  CancelSessionDocument,
  ExtendSessionDocument,
  HoldSessionDocument,
  KeepSessionDocument,
  ReleaseSessionDocument,
  RetrySessionDocument,
  SetPrioritiesDocument,
  SetPriorityDocument,
  UpdateSessionDocument,
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
    const rest = error.fault.mayHaveBegun ? " It is unknown whether the action was carried out." : "";
    showNotice({ tone: "bad", text: `${error.message}${rest}` });
    return false;
  }
  showNotice({ tone: "good", text: done });
  return true;
}

interface Target {
  readonly id: string;
  readonly name: string | null;
  readonly version: number;
}

export const cancelAll = (targets: readonly Target[]) =>
  carryOutAll("Canceled", targets, async ({ id }) => (await change(CancelSessionDocument, { id })).cancel_session);

export const holdAll = (targets: readonly Target[]) =>
  carryOutAll("Held", targets, async ({ id }) => (await change(HoldSessionDocument, { id })).hold_session);

export const releaseAll = (targets: readonly Target[]) =>
  carryOutAll("Released", targets, async ({ id }) => (await change(ReleaseSessionDocument, { id })).release_session);

export const retryAll = (targets: readonly Target[]) =>
  carryOutAll("Queued again", targets, async ({ id }) => (await change(RetrySessionDocument, { id })).retry_session);

export const prioritise = (targets: readonly Target[], priority: Priority) =>
  carryOutAll(
    `Priority ${priority}`,
    targets,
    async ({ id, version }) => (await change(SetPriorityDocument, { id, priority, version })).update_session_priority,
    async (ids) => (await change(SetPrioritiesDocument, { ids, priority })).update_session_priorities,
  );

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

/** Targets of one request, where an action takes several. */
const TOGETHER = 500;

/**
 * Runs an action on each target and shows one outcome for all. True if each succeeded. Without a server or a sign-in the
 * others are not tried.
 *
 * @param actTogether does it to several targets, or to none of them, which are then tried one by one.
 */
async function carryOutAll(
  done: string,
  targets: readonly Target[],
  act: (target: Target) => Promise<Outcome>,
  actTogether?: (ids: string[]) => Promise<Outcome>,
): Promise<boolean> {
  const refused: string[] = [];
  let doneTogether = 0;
  for (const [index, target] of targets.entries()) {
    if (index < doneTogether) continue;
    progress.set(`${done}: ${index} of ${targets.length} …`);
    try {
      const some = targets.slice(index, index + TOGETHER);
      if (actTogether && index % TOGETHER === 0 && (await isDone(() => actTogether(some.map(({ id }) => id))))) {
        doneTogether = index + some.length;
        continue;
      }
      const outcome = await act(target);
      if ("message" in outcome) refused.push(about(target, outcome.message));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const all = error.fault.kind === "refused" ? [target] : targets.slice(index);
      refused.push(...all.map((one) => about(one, error.message)));
      if (error.fault.kind !== "refused") break;
    }
  }
  progress.set(null);
  showNotice({ tone: refused.length ? "bad" : "good", text: summary(done, targets.length, refused) });
  return refused.length === 0;
}

/** Whether an action was done, or refused. Throws the Refusal if there is no server or no sign-in. */
async function isDone(act: () => Promise<Outcome>): Promise<boolean> {
  try {
    return !("message" in (await act()));
  } catch (error) {
    if (error instanceof Refusal && error.fault.kind === "refused") return false;
    throw error;
  }
}

/** A message that names its session: the name is put before it unless it contains the id, which is shown as the name. */
function about(target: Target, message: string): string {
  return message.includes(target.id) ? message : `${nameOf(target)}: ${message}`;
}
