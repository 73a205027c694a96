import { serverNow } from "../api/time";
import { COMING, LOOKUP, OTHERWISE, PLACES, SUBMIT, SUBMITTED } from "./places";

type Asked = (query: string, variables?: unknown) => Promise<unknown>;

const TRIES_MAX = 40;
const TRY_MS = 250;
const HOUR_MS = 3_600_000;
/** How long before now each of these times is. */
const MOMENTS: Readonly<Record<string, number>> = { now: 0, "an hour ago": HOUR_MS };
/** Asked only for the time of the answer. */
const NOTHING = "{ __typename }";

/** The placeholders of variables: names in angle brackets. */
export function wanted(variables: string): string[] {
  return [...variables.matchAll(/"<([^>]+)>"/g)].map(([, name]) => name ?? "");
}

/**
 * Variables with placeholders filled in. If a session is needed and there is none, one is submitted, if permitted.
 * Placeholders without a value after ten seconds are left. Times are by the server's clock, which `ask` learns.
 */
export async function filled(variables: string, me: string, ask: Asked): Promise<string> {
  const names = wanted(variables);
  if (!names.some((name) => name in PLACES)) {
    if (names.some((name) => name in MOMENTS)) await ask(NOTHING);
    return replaced(variables, {});
  }
  const asked = { me, gpus: names.includes("first device"), rules: names.includes("backlog threshold") };
  let found = await ask(LOOKUP, asked);
  const awaited: string[] = [];
  for (const name of names) if (await isSubmitted(name, found, ask)) awaited.push(name);
  for (let tries = 0; tries < TRIES_MAX && awaited.some((name) => at(found, PLACES[name]) === undefined); tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, TRY_MS));
    found = await ask(LOOKUP, asked);
  }
  return replaced(variables, found);
}

/** Whether a missing session will exist soon: it was submitted before, or is submitted now. */
async function isSubmitted(name: string, found: unknown, ask: Asked): Promise<boolean> {
  const what = SUBMITTED[name];
  if (!what || at(found, PLACES[name]) !== undefined) return false;
  if (!what.held && at(found, COMING) !== undefined) return true;
  return at(await ask(SUBMIT, what), "create_session.__typename") === "CreateSessionSuccess";
}

function replaced(variables: string, found: unknown): string {
  return variables.replace(/"<([^>]+)>"/g, (written, name: string) => {
    const value = moment(name) ?? at(found, PLACES[name]) ?? at(found, OTHERWISE[name]);
    return value === undefined ? written : JSON.stringify(value);
  });
}

function moment(name: string): string | undefined {
  const before = MOMENTS[name];
  if (before !== undefined) return new Date(serverNow() - before).toISOString();
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
