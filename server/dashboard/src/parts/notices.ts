import { Observable } from "../api/observable";

export interface Notice {
  readonly tone: "good" | "bad";
  readonly text: string;
}

/** The newest word on what was done; one at a time. */
export const notice = new Observable<Notice | null>(null);

const SHOWN_MS = 6_000;
let timer: ReturnType<typeof setTimeout> | undefined;

/** A failure stays until it is put away. */
export function tellAll(next: Notice): void {
  clearTimeout(timer);
  notice.set(next);
  if (next.tone === "good") timer = setTimeout(() => notice.set(null), SHOWN_MS);
}
