import { useEffect, useMemo, useState } from "react";
import { useLive, type Live } from "../api/live";
import { useSubscription } from "../api/subscription";
import { DevicesDocument } from "../generated/graphql";
import { learnNames } from "../session/names";
import { agentsOf, boardAfter, type Asked, type Board } from "./board";
import { loadAgents, loadCluster } from "./loading";
import { sessionsOn, type Agent } from "./nodes";

const AGENTS_MS = 5_000;
const DEVICES_MS = 2_000;

/**
 * All agents. Changes of devices come by subscription, states of agents by query; devices are queried, too, while the
 * subscription is down. Titles of holding sessions are loaded before the devices are shown.
 */
export function useCluster(): Live<readonly Agent[]> {
  const [board, setBoard] = useState<Board>(() => new Map());
  const isSubscribed = useSubscription("devices", {
    document: DevicesDocument,
    variables: (after) => ({ after }),
    take: async ({ device_updates: update }) => {
      await learnNames(sessionsOn(update.agents.flatMap(({ devices }) => devices))).catch(() => undefined);
      setBoard((old) => boardAfter(old, update));
      return update.number;
    },
  });
  const asked = useLive<readonly Asked[]>(isSubscribed ? loadAgents : load, "cluster", {
    everyMs: isSubscribed ? AGENTS_MS : DEVICES_MS,
    isShared: true,
  });
  const { refresh } = asked;
  // An agent was added or removed.
  useEffect(refresh, [board.size, refresh]);
  const data = useMemo(
    () => (asked.data ? agentsOf(asked.data, board, isSubscribed) : null),
    [asked.data, board, isSubscribed],
  );
  return { ...asked, data };
}

async function load(): Promise<readonly Agent[]> {
  const agents = await loadCluster();
  await learnNames(sessionsOn(agents.flatMap(({ devices }) => devices)));
  return agents;
}
