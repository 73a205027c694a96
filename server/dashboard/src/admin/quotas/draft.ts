import { amountOf } from "../../format/amounts";
import type { QuotaScope, QuotasQuery, SetQuotaInput } from "../../generated/graphql";

export type Quota = QuotasQuery["quotas"][number];

/** The form of a quota. */
export interface Draft {
  readonly scope: QuotaScope;
  readonly name: string;
  readonly max: string;
  readonly own: string;
  readonly queued: string;
  readonly hours: string;
  readonly weight: string;
  /** 0 for a new quota. */
  readonly version: number;
}

export const NEW: Draft = { scope: "user", name: "", max: "", own: "", queued: "", hours: "", weight: "", version: 0 };

export function draftOf(quota: Quota): Draft {
  return {
    scope: quota.scope,
    name: quota.name,
    max: slotsText(quota.max_slots),
    own: slotsText(quota.own_slots),
    queued: text(quota.max_queued),
    hours: text(quota.gpu_hours_per_month),
    weight: text(quota.weight),
    version: quota.version,
  };
}

export function wrongsOf(draft: Draft): Partial<Record<keyof Draft, string>> {
  const checks: readonly (readonly [keyof Draft, string | undefined])[] = [
    ["name", draft.scope !== "cluster" && !draft.name.trim() ? `Enter the name of the ${draft.scope}.` : undefined],
    ["max", slotsWrong(draft.max)],
    ["own", slotsWrong(draft.own)],
    ["queued", wholeWrong(draft.queued)],
    ["hours", wholeWrong(draft.hours)],
    ["weight", wholeWrong(draft.weight)],
  ];
  return Object.fromEntries(checks.filter(([, wrong]) => wrong));
}

export function inputOf(draft: Draft): SetQuotaInput {
  return {
    scope: draft.scope,
    name: draft.scope === "cluster" ? "" : draft.name.trim(),
    max_slots: slotsOf(draft.max),
    own_slots: slotsOf(draft.own),
    max_queued: whole(draft.queued),
    gpu_hours_per_month: whole(draft.hours),
    weight: whole(draft.weight),
    expected_version: draft.version,
  };
}

/** Slots as they are typed: `cuda.device 4, mem 64g`. */
export function slotsText(slots: Quota["max_slots"]): string {
  return slots.map(({ slot, amount }) => `${slot} ${amount}`).join(", ");
}

function slotsOf(list: string): { slot: string; amount: string }[] {
  return partsOf(list).map((part) => {
    const [slot = "", amount = ""] = part.split(/[\s=]+/);
    return { slot, amount };
  });
}

function slotsWrong(list: string): string | undefined {
  const bad = partsOf(list).find((part) => {
    const words = part.split(/[\s=]+/);
    return words.length !== 2 || Number.isNaN(amountOf(words[1] ?? ""));
  });
  return bad === undefined ? undefined : "Enter slots with amounts, like cuda.device 4, mem 64g.";
}

function partsOf(list: string): string[] {
  return list
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

function wholeWrong(value: string): string | undefined {
  return value === "" || /^\d+$/.test(value.trim()) ? undefined : "Enter a whole number, or nothing.";
}

function whole(value: string): number | null {
  return value.trim() === "" ? null : Number(value);
}

function text(value: number | null): string {
  return value === null ? "" : String(value);
}
