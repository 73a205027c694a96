import { Observable } from "../api/observable";

export interface Notice {
  readonly tone: "good" | "bad";
  readonly text: string;
}

/** The outcome of the last action. */
export const notice = new Observable<Notice | null>(null);

const SHOWN_MS = 6_000;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows an outcome: a success for six seconds, a failure until it is dismissed. */
export function showNotice(next: Notice): void {
  clearTimeout(timer);
  notice.set(next);
  if (next.tone === "good") timer = setTimeout(() => notice.set(null), SHOWN_MS);
}
