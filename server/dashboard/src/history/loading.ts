import { ask } from "../api/client";
import { serverNow } from "../api/time";
import {
  DeviceHistoryDocument,
  QueueHistoryDocument,
  SessionHistoryDocument,
  type HistoryPartsFragment,
  type QueueHistoryQuery,
} from "../generated/graphql";

export type History = HistoryPartsFragment;
export type QueueHistory = QueueHistoryQuery["queue_history"];

/** The readings of a session's devices while it held them. */
export async function loadSessionHistory(id: string): Promise<History> {
  return (await ask(SessionHistoryDocument, { id })).session_history;
}

export async function loadDeviceHistory(agent: string, device: string, lastMs: number): Promise<History> {
  return (await ask(DeviceHistoryDocument, { agent, device, since: ago(lastMs) })).device_history;
}

/** The history of the queue and of the cluster's GPUs. */
export async function loadQueueHistory({ since, until, points }: Span): Promise<QueueHistory> {
  return (await ask(QueueHistoryDocument, { since, until: beforeNow(until), points })).queue_history;
}

/** A period in ISO 8601, and the number of steps. `until` null = now. */
export interface Span {
  readonly since: string;
  readonly until: string | null;
  readonly points: number;
}

/** A time, or null if it is not over yet. */
export function beforeNow(at: string | null): string | null {
  return at !== null && Date.parse(at) < serverNow() ? at : null;
}

export function ago(ms: number): string {
  return new Date(serverNow() - ms).toISOString();
}
