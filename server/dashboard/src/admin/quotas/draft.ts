import { amountInput, amountOf } from "../../format/amounts";
import { isWhole, WHOLE_MAX } from "../../format/whole";
import type { QuotaScope, QuotasQuery, SetQuotaInput } from "../../generated/graphql";

export type Quota = QuotasQuery["quotas"][number];

/** Amounts as they are typed; empty sets none. */
export interface Amounts {
  /** Whole GPUs, or a part of one. */
  readonly gpus: string;
  readonly cpus: string;
  readonly mem: string;
  /** Other slots with amounts: `rocm.device 4, fpga 1`. */
  readonly other: string;
}

const NONE: Amounts = { gpus: "", cpus: "", mem: "", other: "" };
/** An amount that is no limit, where another slot of the same devices may have one. */
const UNLIMITED = "unlimited";
const GPU_SLOTS = ["cuda.device", "cuda.shares"];

/** The form of a quota. */
export interface Draft {
  readonly scope: QuotaScope;
  readonly name: string;
  readonly max: Amounts;
  readonly own: Amounts;
  readonly queued: string;
  readonly hours: string;
  readonly weight: string;
  /** Money per month, by the policy's prices. */
  readonly budget: string;
  /** 0 for a new quota. */
  readonly version: number;
}

export const NEW: Draft = {
  scope: "user",
  name: "",
  max: NONE,
  own: NONE,
  queued: "",
  hours: "",
  weight: "",
  budget: "",
  version: 0,
};

export function draftOf(quota: Quota): Draft {
  return {
    scope: quota.scope,
    name: quota.name,
    max: amountsOf(quota.max_slots),
    own: amountsOf(quota.own_slots),
    queued: text(quota.max_queued),
    hours: text(quota.gpu_hours_per_month),
    weight: text(quota.weight),
    budget: text(quota.budget),
    version: quota.version,
  };
}

/** The subject of a quota in addresses: `user:anna`, `project:vision`, `cluster:`. */
export const subjectOf = ({ scope, name }: { readonly scope: QuotaScope; readonly name: string }) => `${scope}:${name}`;

/** The form for a subject: of its quota, or of a new one. */
export function draftFor(subject: string, quotas: readonly Quota[]): Draft {
  const known = quotas.find((quota) => subjectOf(quota) === subject);
  if (known) return draftOf(known);
  const [scope = "", name = ""] = subject.split(/:(.*)/s);
  return scope === "user" || scope === "project" || scope === "key" ? { ...NEW, scope, name } : NEW;
}

/** The quota that a form would change; undefined if there is none, so that it would create one. */
export function changedBy({ scope, name }: Draft, quotas: readonly Quota[]): Quota | undefined {
  const subject = subjectOf({ scope, name: scope === "cluster" ? "" : name.trim() });
  return quotas.find((quota) => subjectOf(quota) === subject);
}

/** How the quota changed since the form was filled; null if the form is of its newest version. */
export function behindText(draft: Draft, newest: Quota | undefined): string | null {
  if ((newest?.version ?? 0) === draft.version) return null;
  if (newest === undefined) return "Someone else removed this quota meanwhile.";
  if (draft.version > 0) return "Someone else changed this quota meanwhile.";
  return `There is a quota of ${newest.name || "the cluster"} already.`;
}

/** The newest version of the quota with the edits that a form made on the version `before`. */
export function rebased(newest: Quota | undefined, before: Draft, draft: Draft): Draft {
  const now = newest === undefined ? NEW : draftOf(newest);
  const moved = (own: Amounts, old: Amounts, next: Amounts): Amounts => ({ ...next, ...editsOf(own, old) });
  return {
    ...now,
    ...editsOf(draft, before),
    max: moved(draft.max, before.max, now.max),
    own: moved(draft.own, before.own, now.own),
    scope: draft.scope,
    name: draft.name,
    version: now.version,
  };
}

function editsOf<T extends object>(own: T, before: T): Partial<T> {
  const edited = Object.entries(own).filter(([name, value]) => value !== before[name as keyof T]);
  return Object.fromEntries(edited) as Partial<T>;
}

export type Wrongs = Readonly<Record<string, string>>;

/** Error messages by field; those of amounts as `max.gpus`. */
export function wrongsOf(draft: Draft): Wrongs {
  const name: readonly [string, string | undefined] = [
    "name",
    draft.scope !== "cluster" && !draft.name.trim()
      ? `Enter the ${draft.scope === "key" ? "id of the API key" : `name of the ${draft.scope}`}.`
      : undefined,
  ];
  const limits: readonly (readonly [string, string | undefined])[] = [
    ...amountsWrong("max", draft.max),
    ...amountsWrong("own", draft.own),
    ["queued", countWrong(draft.queued)],
    ["hours", countWrong(draft.hours)],
    ["weight", countWrong(draft.weight)],
  ];
  const checks = [name, ...(hasOnlyBudget(draft) ? [] : limits), ["budget", moneyWrong(draft.budget)] as const];
  return Object.fromEntries(checks.filter(([, wrong]) => wrong)) as Wrongs;
}

/** Whether a quota can only have a budget: that of an API key. */
export const hasOnlyBudget = ({ scope }: Draft) => scope === "key";

const DEFAULT_PROJECT = "default";

/** A remark about a name that is new, as a misspelt one is accepted too. */
export function newText({ scope, name }: Draft, known: readonly string[]): string | undefined {
  const typed = name.trim();
  if (typed === "" || known.includes(typed)) return undefined;
  if (scope === "user") return `There is no user ${typed} yet. The quota is kept for when they are created.`;
  if (scope === "project" && typed !== DEFAULT_PROJECT) return `Project ${typed} is new: its quota creates it.`;
  return undefined;
}

export function inputOf(given: Draft): SetQuotaInput {
  const { scope, name, budget, version } = given;
  const draft = hasOnlyBudget(given) ? { ...NEW, scope, name, budget, version } : given;
  return {
    scope: draft.scope,
    name: draft.scope === "cluster" ? "" : draft.name.trim(),
    max_slots: slotsIn(draft.max),
    own_slots: slotsIn(draft.own),
    max_queued: whole(draft.queued),
    gpu_hours_per_month: whole(draft.hours),
    weight: whole(draft.weight),
    budget: whole(draft.budget),
    expected_version: draft.version,
  };
}

/** Slots of a quota in the fields of the form. */
function amountsOf(slots: Quota["max_slots"]): Amounts {
  const gpus = slots.filter(({ slot }) => GPU_SLOTS.includes(slot));
  const isOne = gpus.length === 1;
  const rest = slots.filter(({ slot }) => slot !== "cpu" && slot !== "mem" && !(isOne && GPU_SLOTS.includes(slot)));
  const of = (name: string) => slots.find(({ slot }) => slot === name)?.amount ?? "";
  return {
    gpus: isOne ? plainNumber(gpus[0]?.amount ?? "") : "",
    cpus: of("cpu"),
    mem: of("mem"),
    other: rest.map(({ slot, amount }) => `${slot} ${amount}`).join(", "),
  };
}

/** `0.50` as 0.5, `unlimited` as it is. */
function plainNumber(amount: string): string {
  return Number.isNaN(Number(amount)) ? amount : String(Number(amount));
}

function slotsIn({ gpus, cpus, mem, other }: Amounts): { slot: string; amount: string }[] {
  const slot = Number.isInteger(Number(gpus)) || gpus.trim() === UNLIMITED ? "cuda.device" : "cuda.shares";
  return [
    ...(gpus.trim() ? [{ slot, amount: gpus.trim() }] : []),
    ...(cpus.trim() ? [{ slot: "cpu", amount: cpus.trim() }] : []),
    ...(mem.trim() ? [{ slot: "mem", amount: amountInput(mem) }] : []),
    ...slotsOf(other),
  ];
}

function amountsWrong(group: string, amounts: Amounts): (readonly [string, string | undefined])[] {
  const number = (value: string) => ["", UNLIMITED].includes(value.trim()) || /^\d+(\.\d+)?$/.test(value.trim());
  return [
    [`${group}.gpus`, number(amounts.gpus) ? undefined : "Enter a number of GPUs, like 4 or 0.5, or nothing."],
    [`${group}.cpus`, amounts.cpus.trim() === UNLIMITED ? undefined : countWrong(amounts.cpus)],
    [
      `${group}.mem`,
      amounts.mem.trim() && Number.isNaN(amountOf(amounts.mem)) ? "Enter a size, like 64g or 512m." : undefined,
    ],
    [`${group}.other`, slotsWrong(amounts.other)],
  ];
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
  return bad === undefined ? undefined : "Enter slots with amounts, like rocm.device 4.";
}

function partsOf(list: string): string[] {
  return list
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

function countWrong(value: string): string | undefined {
  return value.trim() === "" || isWhole(value) ? undefined : `Enter a whole number up to ${WHOLE_MAX}, or nothing.`;
}

function moneyWrong(value: string): string | undefined {
  return /^(\d+(\.\d+)?)?$/.test(value.trim()) ? undefined : "Enter an amount, like 250 or 99.50, or nothing.";
}

function whole(value: string): number | null {
  return value.trim() === "" ? null : Number(value);
}

function text(value: number | null): string {
  return value === null ? "" : String(value);
}
