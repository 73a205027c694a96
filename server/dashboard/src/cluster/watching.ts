import { useEffect, useMemo, useState } from "react";
import { useLive, type Live } from "../api/live";
import { useTold } from "../api/told";
import { DevicesDocument } from "../generated/graphql";
import { learnNames } from "../session/names";
import { agentsOf, boardAfter, type Asked, type Board } from "./board";
import { loadAgents, loadCluster } from "./loading";
import { sessionsOn, type Agent } from "./nodes";

const AGENTS_MS = 5_000;
const DEVICES_MS = 2_000;

/**
 * All agents: told of each change of their devices, and asked how they are; asked for their devices, too, while nothing
 * is told. What the sessions that hold something are called is known before it is shown that they do.
 */
export function useCluster(): Live<readonly Agent[]> {
  const [board, setBoard] = useState<Board>(() => new Map());
  const isTold = useTold("devices", {
    document: DevicesDocument,
    variables: (after) => ({ after }),
    take: async ({ device_updates: update }) => {
      await learnNames(sessionsOn(update.agents.flatMap(({ devices }) => devices))).catch(() => undefined);
      setBoard((old) => boardAfter(old, update));
      return update.number;
    },
  });
  const asked = useLive<readonly Asked[]>(isTold ? loadAgents : load, "cluster", {
    everyMs: isTold ? AGENTS_MS : DEVICES_MS,
    isShared: true,
  });
  const { refresh } = asked;
  // One that was not asked about yet has come, or one is gone.
  useEffect(refresh, [board.size, refresh]);
  const data = useMemo(() => (asked.data ? agentsOf(asked.data, board, isTold) : null), [asked.data, board, isTold]);
  return { ...asked, data };
}

async function load(): Promise<readonly Agent[]> {
  const agents = await loadCluster();
  await learnNames(sessionsOn(agents.flatMap(({ devices }) => devices)));
  return agents;
}
