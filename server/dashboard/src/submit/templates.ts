import { KeptList } from "../parts/keptList";
import { EMPTY, type Fallback, type Form, type Pair } from "./form";

/** A form with a name. */
export interface Template {
  readonly name: string;
  /** What differs from an empty form. */
  readonly fields: Partial<Form>;
}

const TEMPLATES_MAX = 50;
const NAME_CHARS_MAX = 60;

/** The templates that this browser keeps. */
export const templates = new KeptList("aliquot:templates", isTemplate, TEMPLATES_MAX);

/** Keeps a form as a template; one of the same name is replaced. Secrets are names, so they are kept too. */
export function saveTemplate(name: string, form: Form): void {
  const short = name.trim().slice(0, NAME_CHARS_MAX);
  const fields = changedIn(form);
  if (short) templates.edit((all) => [...all.filter((one) => one.name !== short), { name: short, fields }]);
}

export function dropTemplate(name: string): void {
  templates.edit((all) => all.filter((one) => one.name !== name));
}

/** The fields of a form that differ from an empty one. */
export function changedIn(form: Form): Partial<Form> {
  const names = Object.keys(EMPTY) as (keyof Form)[];
  return Object.fromEntries(
    names
      .filter((name) => JSON.stringify(form[name]) !== JSON.stringify(EMPTY[name]))
      .map((name) => [name, form[name]]),
  );
}

/** A form from the text in an address, see `addressOf`; null if it is none. Unknown and ill-typed fields are dropped. */
export function formIn(text: string): Form | null {
  try {
    return filled(JSON.parse(text));
  } catch {
    return null;
  }
}

/** The form in an address, for a colleague. */
export function addressOf(form: Form): string {
  return `/submit?form=${encodeURIComponent(JSON.stringify(changedIn(form)))}`;
}

/** An empty form with these fields, as far as it has them. */
export function filled(fields: unknown): Form | null {
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) return null;
  const good = Object.entries(fields).filter(([name, value]) => {
    const own = (EMPTY as unknown as Record<string, unknown>)[name];
    return Object.hasOwn(EMPTY, name) && typeof own === typeof value && isListed(name, own, value);
  });
  return { ...EMPTY, ...Object.fromEntries(good) };
}

/** Whether both or neither are lists, and all items are of the kind of the field. */
function isListed(name: string, own: unknown, value: unknown): boolean {
  if (!Array.isArray(own) || !Array.isArray(value)) return Array.isArray(own) === Array.isArray(value);
  const isRight = { fallbacks: isFallback, environmentLong: isPair, tagsLong: isPair }[name] ?? isText;
  return value.every(isRight);
}

function isText(item: unknown): boolean {
  return typeof item === "string";
}

function isPair(item: unknown): item is Pair {
  const { name, value } = (item ?? {}) as Partial<Pair>;
  return isText(name) && isText(value);
}

function isFallback(item: unknown): item is Fallback {
  const { slots, after_s } = (item ?? {}) as Partial<Fallback>;
  return Array.isArray(slots) && slots.every((one) => typeof one?.amount === "string") && typeof after_s === "number";
}

function isTemplate(value: unknown): value is Template {
  const { name, fields } = (value ?? {}) as Partial<Template>;
  return typeof name === "string" && filled(fields) !== null;
}
