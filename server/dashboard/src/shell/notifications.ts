import type { Event } from "../api/feed";
import { Observable } from "../api/observable";

/** The text of a notification. */
export interface Told {
  readonly title: string;
  readonly body: string;
}

const KEY = "aliquot:notifications";
const WATCHED_MAX = 200;

interface Settings {
  /** Whether there are notifications of the user's own sessions. */
  readonly isOn: boolean;
  /** Single sessions with notifications, of any owner. */
  readonly watched: readonly string[];
}

/** Off by default; kept in this browser. */
export const settings = new Observable<Settings>(kept());

/** Turns notifications of the user's sessions on or off. Asks the browser once; returns an error message, or null. */
export async function setNotifying(isOn: boolean): Promise<string | null> {
  const fault = isOn ? await permission() : null;
  if (fault === null) keep({ ...settings.get(), isOn });
  return fault;
}

/** Starts or stops notifications of one session; returns an error message, or null. */
export async function setWatched(id: string, isWatched: boolean): Promise<string | null> {
  const fault = isWatched ? await permission() : null;
  const others = settings.get().watched.filter((one) => one !== id);
  if (fault === null) keep({ ...settings.get(), watched: isWatched ? [...others, id].slice(-WATCHED_MAX) : others });
  return fault;
}

/** The notification for an event; null if the user's settings do not ask for one. */
export function toldOf({ kind, session }: Event, { isOn, watched }: Settings, user: string): Told | null {
  const isMine = isOn && session.owner === user && !session.array_id;
  const word = WORDS[kind];
  if (!word || !(isMine || watched.includes(session.id))) return null;
  const name = session.name || `…${session.id.slice(-6)}`;
  const reason = kind === "session.failed" ? (session.failure?.message ?? "") : "";
  return { title: `${name} ${word}`, body: reason || `${session.owner}, ${session.project}` };
}

const WORDS: Readonly<Record<string, string>> = {
  "session.running": "started",
  "session.completed": "completed",
  "session.failed": "failed",
  "session.canceled": "was canceled",
};

/** Shows a notification that leads to the session. */
export function show(told: Told, sessionId: string): void {
  if (!("Notification" in globalThis) || Notification.permission !== "granted") return;
  const shown = new Notification(told.title, { body: told.body, tag: sessionId });
  shown.onclick = () => {
    window.focus();
    window.location.assign(`/sessions/${sessionId}`);
  };
}

async function permission(): Promise<string | null> {
  if (!("Notification" in globalThis))
    return "This browser has no notifications, or the page is not served over HTTPS.";
  if ((await Notification.requestPermission()) === "granted") return null;
  return "The browser does not allow notifications of this page; allow them in its site settings.";
}

function keep(next: Settings): void {
  settings.set(next);
  try {
    globalThis.localStorage?.setItem(KEY, JSON.stringify(next));
  } catch {
    return;
  }
}

function kept(): Settings {
  try {
    const found = JSON.parse(globalThis.localStorage?.getItem(KEY) ?? "{}") as Partial<Settings> | null;
    const watched = Array.isArray(found?.watched) ? found.watched.filter((one) => typeof one === "string") : [];
    return { isOn: found?.isOn === true, watched };
  } catch {
    return { isOn: false, watched: [] };
  }
}
