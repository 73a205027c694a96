import { ask } from "../api/client";
import { FindSessionsDocument, type SessionOrder, type SessionState } from "../generated/graphql";
import { learnNames } from "../session/names";
import { isWaiting } from "../session/standing";
import { filterOf, type Wanted } from "./filters";
import { loadSessions, type Page, type Part } from "./loading";
import { byPlace, merged } from "./merging";

/**
 * A part of the sessions in these states, with these values of fields.
 *
 * @param wanted its word is empty; null = all sessions.
 * @param sort empty: those loaded of the waiting ones in the order of the queue, others newest first.
 */
export async function filterSessions(
  states: readonly SessionState[],
  wanted: Wanted | null,
  sort: SessionOrder | "",
  part: Part,
): Promise<Page> {
  const filter = wanted ? filterOf(states, wanted) : { states };
  const isQueue = wanted !== null && states.some(isWaiting);
  const page = await loadSessions(filter, part, sort || (isQueue ? "oldest" : "newest"));
  if (wanted?.array) await learnNames([wanted.array]);
  return isQueue && !sort ? { ...page, entries: [...page.entries].sort(byPlace) } : page;
}

/**
 * Searches all sessions in these states for the word: a part of the name or id, or the owner, project, pool or a tag.
 *
 * @param sort empty: waiting sessions in the order of the queue, others newest first.
 */
export async function findSessions(
  states: readonly SessionState[],
  wanted: Wanted,
  sort: SessionOrder | "",
): Promise<Page> {
  const { word } = wanted;
  const shared = filterOf(states, wanted);
  const answer = await ask(FindSessionsDocument, {
    named: { ...shared, search: word || null },
    owned: { ...shared, owners: [word] },
    charged: { ...shared, projects: [word] },
    pooled: { ...shared, pools: [word] },
    tagged: { ...shared, tags: [...(shared.tags ?? []), word] },
    hasWord: word !== "",
    order: sort || (states.some(isWaiting) ? "oldest" : "newest"),
  });
  const found = [answer.named, answer.owned, answer.charged, answer.pooled, answer.tagged];
  const page = merged(
    found.filter((one) => one !== undefined),
    sort,
  );
  await learnNames([
    ...page.entries.flatMap(({ session }) => session.waits?.blocked_by ?? []),
    ...(wanted.array ? [wanted.array] : []),
  ]);
  return page;
}
