import { ask } from "../../api/client";
import { AdminAgentsDocument, type AdminAgentsQuery } from "../../generated/graphql";

export type AdminAgent = AdminAgentsQuery["agents"]["edges"][number]["node"];

export interface AgentsNow {
  readonly agents: readonly AdminAgent[];
  readonly pools: readonly string[];
}

export async function loadAgents(): Promise<AgentsNow> {
  const agents: AdminAgent[] = [];
  let after: string | null = null;
  for (;;) {
    const answer: AdminAgentsQuery = await ask(AdminAgentsDocument, { after });
    agents.push(...answer.agents.edges.map((edge) => edge.node));
    if (!answer.agents.pageInfo.hasNextPage) return { agents, pools: answer.policy.pools.map((pool) => pool.name) };
    after = answer.agents.pageInfo.endCursor;
  }
}
