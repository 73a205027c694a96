import type { CreateSessionInput } from "../generated/graphql";

type Use = NonNullable<CreateSessionInput["secrets"]>[number];

/** Where users store their secrets. */
export const SECRETS_PATH = "/admin?tab=access";

const LINE =
  /^\s*([A-Za-z_][A-Za-z0-9_.-]{0,63})\s*(?:=\s*(?:file:(?<file>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})|(?<variable>[A-Za-z_][A-Za-z0-9_]*)))?\s*$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The secrets of a valid text: NAME, NAME=VARIABLE or NAME=file:FILE on each line. */
export function secretsOf(text: string): Use[] {
  return linesOf(text).map((line) => {
    const match = LINE.exec(line);
    const name = match?.[1] ?? line.trim();
    const { file, variable } = match?.groups ?? {};
    return file ? { name, as_file: file } : { name, as_env: variable ?? name };
  });
}

/** The error message about the first invalid line. */
export function secretsWrong(text: string): string | undefined {
  for (const line of linesOf(text)) {
    const match = LINE.exec(line);
    if (!match)
      return `Write NAME, NAME=VARIABLE or NAME=file:FILE on each line; this is not: ${line.trim().slice(0, 40)}`;
    const { file, variable } = match.groups ?? {};
    const name = match[1] ?? "";
    if (!file && !variable && !VARIABLE.test(name)) return `Add the name of a variable: ${name}=VARIABLE.`;
  }
  return undefined;
}

/** Whether a secret can have this name. */
export function isSecretName(name: string): boolean {
  return NAME.test(name);
}

/** Whether the text names a secret. */
export function isUsed(text: string, name: string): boolean {
  return linesOf(text).some((line) => nameOf(line) === name);
}

/** The text with a line for a secret, or without its lines if it has any. */
export function toggled(text: string, name: string): string {
  const rest = linesOf(text).filter((line) => nameOf(line) !== name);
  const variable = name.toUpperCase().replace(/[.-]/g, "_");
  const line = VARIABLE.test(name) ? name : `${name}=${variable}`;
  return (isUsed(text, name) ? rest : [...rest, line]).join("\n");
}

/** The error message about the first secret that the user has not stored. */
export function notStored(text: string, stored: readonly string[]): string | undefined {
  const missing = linesOf(text)
    .map(nameOf)
    .find((name) => name !== undefined && !stored.includes(name));
  return missing === undefined ? undefined : `You have no secret ${missing}. Store it first, or correct the name.`;
}

function nameOf(line: string): string | undefined {
  return LINE.exec(line)?.[1];
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}
