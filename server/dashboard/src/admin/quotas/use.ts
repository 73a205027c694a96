import { amountOf, bytes, plain } from "../../format/amounts";
import type { QuotaScope, QuotaUseQuery } from "../../generated/graphql";

export type Use = QuotaUseQuery["quota_use"][number];

/** What a user, a project or the cluster holds, queues and has used; nothing if it is not listed. */
export function useOf(uses: readonly Use[], scope: QuotaScope, name: string): Use {
  const found = uses.find((one) => one.scope === scope && one.name === (scope === "cluster" ? "" : name.trim()));
  return found ?? { scope, name, held: [], waiting: 0, gpu_hours_month: 0, cost_month: 0 };
}

/** The amount held, in the unit of a field. */
export function heldOf(use: Use, field: "gpus" | "cpus" | "mem"): number {
  const slot = { gpus: "cuda.shares", cpus: "cpu", mem: "mem" }[field];
  return amountOf(use.held.find((one) => one.slot === slot)?.amount ?? "0");
}

/** `Now 2.5 GPUs`, and a remark if that is more than the limit as it is typed. */
export function nowText(field: "gpus" | "cpus" | "mem", use: Use, limit: string): string {
  const held = heldOf(use, field);
  const words = { gpus: `${plain(held)} GPUs`, cpus: `${plain(held)} CPUs`, mem: bytes(held) }[field];
  return remarked(`Now ${words} held.`, held, amountOf(limit));
}

/** The same of a number that is counted, like waiting tasks. */
export function countText(words: string, now: number, limit: string): string {
  return remarked(`Now ${plain(now)} ${words}.`, now, limit.trim() === "" ? NaN : Number(limit));
}

function remarked(words: string, now: number, limit: number): string {
  return now > limit ? `${words} That is more than this limit: nothing is stopped, and nothing new starts.` : words;
}
