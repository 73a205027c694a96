import type { Session } from "./loading";

export type ArrayTasks = NonNullable<Session["tasks"]>;
export type TaskState = "failed" | "canceled" | "active" | "waiting" | "completed";

export interface Square {
  readonly index: number;
  readonly state: TaskState;
}

/** The order of the squares: what needs attention first. */
export const STATES: readonly TaskState[] = ["failed", "canceled", "active", "waiting", "completed"];
export const SQUARES_MAX = 2000;

/** The tasks of an array, failed ones first, then by state and index; at most `most`. */
export function squaresOf(tasks: ArrayTasks, most: number = SQUARES_MAX): readonly Square[] {
  const found: Square[] = [];
  for (const state of STATES)
    for (const index of numbersOf(tasks[state].indices, most - found.length)) found.push({ index, state });
  return found;
}

/** The state of one task; null if the array has no such task. */
export function stateOf(tasks: ArrayTasks, index: number): TaskState | null {
  return STATES.find((state) => numbersOf(tasks[state].indices, Infinity).includes(index)) ?? null;
}

/** The first numbers of a text like `0-3,7`. */
export function numbersOf(text: string, most: number): readonly number[] {
  const found: number[] = [];
  for (const part of text.split(",")) {
    const [first, last = first] = part.split("-").map(Number);
    if (part === "" || first === undefined || last === undefined) continue;
    for (let index = first; index <= last && found.length < most; index++) found.push(index);
  }
  return found;
}
