import type { CreateSessionInput } from "../generated/graphql";

type Use = NonNullable<CreateSessionInput["secrets"]>[number];

const LINE =
  /^\s*([A-Za-z_][A-Za-z0-9_.-]{0,63})\s*(?:=\s*(?:file:(?<file>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})|(?<variable>[A-Za-z_][A-Za-z0-9_]*)))?\s*$/;
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

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}
