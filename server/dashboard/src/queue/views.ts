import { KeptList } from "../parts/keptList";

/** A set of filters with a name, as the search part of the page's address. */
export interface SavedView {
  readonly name: string;
  readonly search: string;
}

const VIEWS_MAX = 50;
const NAME_CHARS_MAX = 40;

/** The views that this browser keeps. */
export const savedViews = new KeptList("aliquot:views", isView, VIEWS_MAX);

/** Keeps a view; one of the same name is replaced. */
export function saveView({ name, search }: SavedView): void {
  const short = name.trim().slice(0, NAME_CHARS_MAX);
  if (short) savedViews.edit((views) => [...views.filter((one) => one.name !== short), { name: short, search }]);
}

export function dropView(name: string): void {
  savedViews.edit((views) => views.filter((one) => one.name !== name));
}

function isView(value: unknown): value is SavedView {
  const { name, search } = (value ?? {}) as Partial<SavedView>;
  return typeof name === "string" && typeof search === "string";
}
