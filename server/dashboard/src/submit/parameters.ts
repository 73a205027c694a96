import type { Form } from "./form";

/** A parameter of a template: `{{name}}` or `{{name=default}}` in one of its texts. */
export interface Parameter {
  readonly name: string;
  /** Null = a value must be given. */
  readonly fallback: string | null;
}

const PARAMETER = /\{\{([A-Za-z][A-Za-z0-9_]{0,39})(?:=([^{}]*))?\}\}/g;

/** The parameters in the texts of a form, in their order; the first default of each counts. */
export function parametersOf(form: Form): readonly Parameter[] {
  const found = new Map<string, string | null>();
  for (const text of Object.values(form)) {
    if (typeof text !== "string") continue;
    for (const [, name = "", given] of text.matchAll(PARAMETER)) found.set(name, found.get(name) ?? given ?? null);
  }
  return [...found].map(([name, fallback]) => ({ name, fallback }));
}

/** The form with the values of its parameters. */
export function withValues(form: Form, values: Readonly<Record<string, string>>): Form {
  const replaced = Object.entries(form).map(([field, text]) => [
    field,
    typeof text === "string" ? text.replace(PARAMETER, (_, name: string) => values[name] ?? "") : text,
  ]);
  return Object.fromEntries(replaced) as Form;
}
