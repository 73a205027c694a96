import { Observable } from "../api/observable";

/** A set of filters with a name, as the search part of the page's address. */
export interface SavedView {
  readonly name: string;
  readonly search: string;
}

const KEY = "aliquot:views";
const VIEWS_MAX = 50;
const NAME_CHARS_MAX = 40;

/** The views that this browser keeps. */
export const savedViews = new Observable<readonly SavedView[]>(kept());

/** Keeps a view; one of the same name is replaced. */
export function saveView({ name, search }: SavedView): void {
  const short = name.trim().slice(0, NAME_CHARS_MAX);
  if (short) keep([...savedViews.get().filter((one) => one.name !== short), { name: short, search }]);
}

export function dropView(name: string): void {
  keep(savedViews.get().filter((one) => one.name !== name));
}

function keep(views: readonly SavedView[]): void {
  const some = views.slice(-VIEWS_MAX);
  savedViews.set(some);
  try {
    globalThis.localStorage?.setItem(KEY, JSON.stringify(some));
  } catch {
    return;
  }
}

function kept(): SavedView[] {
  try {
    const found: unknown = JSON.parse(globalThis.localStorage?.getItem(KEY) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found.filter(
      (one): one is SavedView =>
        typeof one === "object" && one !== null && typeof one.name === "string" && typeof one.search === "string",
    );
  } catch {
    return [];
  }
}
