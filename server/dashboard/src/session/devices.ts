import { useMemo } from "react";
import { ask } from "../api/client";
import { useLive, type Live } from "../api/live";
import { SessionDevicesDocument, type SessionDevicesQuery } from "../generated/graphql";
import type { Session } from "./loading";

export type NamedDevice = SessionDevicesQuery["agents"]["edges"][number]["node"]["devices"][number] & {
  readonly where: string;
  /** Whether its agent is lost. */
  readonly isLost: boolean;
};

const EVERY_MS = 2_000;
const NO_AGENTS = "none";

/** The devices of a session's agents, with their last readings; refreshed while it holds any. */
export function useDevices(session: Session): Live<readonly NamedDevice[]> {
  const agents = useMemo(
    () => [...new Set(session.kernels.map((kernel) => kernel.agent_id))].sort(),
    [session.kernels],
  );
  const options = session.holds_devices ? { everyMs: EVERY_MS } : {};
  return useLive(() => load(agents), agents.join() || NO_AGENTS, options);
}

async function load(agents: readonly string[]): Promise<readonly NamedDevice[]> {
  if (agents.length === 0) return [];
  const answer = await ask(SessionDevicesDocument, { agents });
  return answer.agents.edges.flatMap(({ node }) =>
    node.devices.map((device) => ({ ...device, where: node.id, isLost: node.state === "lost" })),
  );
}
