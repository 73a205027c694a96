import { LOOKUP, PLACES, SUBMIT, SUBMITTED } from "./places";

type Asked = (query: string, variables?: unknown) => Promise<unknown>;

const TRIES_MAX = 40;
const TRY_MS = 250;
const HOUR_MS = 3_600_000;

/** The names in angle brackets that variables have. */
export function wanted(variables: string): string[] {
  return [...variables.matchAll(/"<([^>]+)>"/g)].map(([, name]) => name ?? "");
}

/**
 * Variables with everything filled in. Where a session is needed and there is none, one is submitted.
 * What is not found in ten seconds stays as it was written.
 */
export async function filled(variables: string, ask: Asked): Promise<string> {
  const names = wanted(variables);
  if (!names.some((name) => name in PLACES)) return replaced(variables, {});
  let found = await ask(LOOKUP);
  const missing = names.filter((name) => name in SUBMITTED && at(found, PLACES[name]) === undefined);
  for (const name of missing) await ask(SUBMIT, SUBMITTED[name]);
  for (let tries = 0; tries < TRIES_MAX && missing.some((name) => at(found, PLACES[name]) === undefined); tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, TRY_MS));
    found = await ask(LOOKUP);
  }
  return replaced(variables, found);
}

function replaced(variables: string, found: unknown): string {
  return variables.replace(/"<([^>]+)>"/g, (written, name: string) => {
    const value = moment(name) ?? at(found, PLACES[name]);
    return value === undefined ? written : JSON.stringify(value);
  });
}

function moment(name: string): string | undefined {
  if (name === "now") return new Date().toISOString();
  if (name === "an hour ago") return new Date(Date.now() - HOUR_MS).toISOString();
  if (name === "new name") return `example-${Date.now().toString(36)}`;
  return undefined;
}

function at(found: unknown, path: string | undefined): unknown {
  let place = found;
  for (const step of path?.split(".") ?? []) {
    if (place === null || typeof place !== "object") return undefined;
    place = (place as Record<string, unknown>)[step];
  }
  return path === undefined ? undefined : (place ?? undefined);
}
