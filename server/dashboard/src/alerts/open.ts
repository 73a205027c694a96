import { ask } from "../api/client";
import { useLive, type Live } from "../api/live";
import { Observable } from "../api/observable";
import { OpenAlertsDocument, type AlertPartsFragment } from "../generated/graphql";

export type Alert = AlertPartsFragment;

/** The open alerts, newest first; refreshed by the shell around every page. */
export const openAlerts = new Observable<readonly Alert[]>([]);
const EVERY_MS = 10_000;

export function useOpenAlerts(): Live<readonly Alert[]> {
  return useLive(load, "alerts", { everyMs: EVERY_MS });
}

async function load(): Promise<readonly Alert[]> {
  const { alerts } = await ask(OpenAlertsDocument, {});
  const open = alerts.edges.map((edge) => edge.node);
  openAlerts.set(open);
  return open;
}
