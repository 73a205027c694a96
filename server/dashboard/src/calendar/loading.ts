import { ask } from "../api/client";
import { BookingsDocument, RunningSessionsDocument } from "../generated/graphql";
import type { Booking, Running } from "./entries";

/** Pages of running sessions that are read at most, of 100 each. */
const PAGES_MAX = 10;

/** The bookings of a window, and the sessions that run now. */
export async function loadCalendar(
  fromMs: number,
  toMs: number,
): Promise<{ bookings: readonly Booking[]; running: readonly Running[] }> {
  const window = { since: new Date(fromMs).toISOString(), until: new Date(toMs).toISOString() };
  const bookings = (await ask(BookingsDocument, window)).reservations;
  const running: Running[] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { edges, pageInfo }: { edges: readonly { node: Running }[]; pageInfo: PageInfo } = (
      await ask(RunningSessionsDocument, { after })
    ).sessions;
    running.push(...edges.map(({ node }) => node));
    if (!pageInfo.hasNextPage) break;
    after = pageInfo.endCursor;
  }
  return { bookings, running };
}

interface PageInfo {
  readonly hasNextPage: boolean;
  readonly endCursor: string | null;
}
