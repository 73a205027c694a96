import { ask } from "../api/client";
import { FindSessionsDocument, type SessionFilter, type SessionState } from "../generated/graphql";
import { learnNames } from "../session/names";
import { isWaiting } from "../session/standing";
import { ANY, type Wanted } from "./filters";
import type { Page } from "./loading";
import { merged } from "./merging";

/**
 * Searches all sessions in these states for the word: a part of the name or id, or the owner, project or pool. Waiting
 * sessions are in the order of the queue, others newest first.
 */
export async function findSessions(states: readonly SessionState[], wanted: Wanted): Promise<Page> {
  const { word, priority } = wanted;
  const shared: SessionFilter = { states, priorities: priority === ANY ? null : [priority] };
  const answer = await ask(FindSessionsDocument, {
    named: { ...shared, search: word || null },
    owned: { ...shared, owners: [word] },
    charged: { ...shared, projects: [word] },
    pooled: { ...shared, pools: [word] },
    hasWord: word !== "",
    order: states.some(isWaiting) ? "oldest" : "newest",
  });
  const page = merged([answer.named, answer.owned, answer.charged, answer.pooled].filter((one) => one !== undefined));
  await learnNames(page.entries.flatMap(({ session }) => session.waits?.blocked_by ?? []));
  return page;
}
