import type { Example, Group } from "./example";
import { AGENTS } from "./examples/agents";
import { BOOKINGS } from "./examples/bookings";
import { CHANGES } from "./examples/changes";
import { CLUSTER } from "./examples/cluster";
import { HISTORY } from "./examples/history";
import { LIVE } from "./examples/live";
import { NOTICES } from "./examples/notices";
import { EXTERNAL_ALLOCATIONS } from "./examples/externalAllocations";
import { PEOPLE } from "./examples/people";
import { RULES } from "./examples/rules";
import { SERVER } from "./examples/server";
import { SESSIONS } from "./examples/sessions";

/** The examples, in the order of the menu. */
export const GROUPS: readonly Group[] = [
  CLUSTER,
  SESSIONS,
  CHANGES,
  EXTERNAL_ALLOCATIONS,
  BOOKINGS,
  LIVE,
  HISTORY,
  AGENTS,
  RULES,
  PEOPLE,
  NOTICES,
  SERVER,
];

/** The example of the first visit. */
export const FIRST: Example | undefined = CLUSTER.examples.find(({ title }) => title === "who holds what");
