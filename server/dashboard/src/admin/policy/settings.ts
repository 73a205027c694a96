import { isWhole, wholeWrong } from "../../format/whole";
import { DURATION_FORM, durationText, secondsOf } from "../../format/times";
import type { PolicyPartsFragment, UpdatePolicyInput } from "../../generated/graphql";
import { PRICES_FORM, ratesOf, ratesText } from "./prices";

export interface Setting {
  /** Its path in the API: `order`, `weights.age`. */
  readonly path: string;
  readonly label: string;
  readonly hint: string;
  /** The valid values; without them it is a number or a duration. */
  readonly options?: readonly string[];
  /** Whether it is a duration: a number of seconds, or text like 7d. */
  readonly isDuration?: boolean;
  /** The rule for a text that is neither a number nor a duration; without it, it is one of these. */
  readonly words?: { readonly isRight: (text: string) => boolean; readonly form: string };
}

export interface Group {
  readonly title: string;
  /** The page of the documentation about it. */
  readonly page: string;
  readonly settings: readonly Setting[];
}

const FLAG = ["true", "false"];

/** The settings of the policy page. */
export const GROUPS: readonly Group[] = [
  {
    title: "Order",
    page: "concepts/scheduling.html#orders",
    settings: [
      {
        path: "order",
        label: "Order",
        hint: "Order of the queue.",
        options: ["fair_share", "relative_age", "priority", "fcfs", "sjf", "gang", "las", "srtf"],
      },
      {
        path: "backfill",
        label: "Backfill",
        hint: "Sessions that may start before the head of the queue.",
        options: ["none", "easy", "conservative"],
      },
      { path: "backfill_depth", label: "Backfill depth, sessions", hint: "conservative: how many get a reservation." },
      {
        path: "user_priority_max",
        label: "Highest priority",
        hint: "For users; operators may set any.",
        options: ["low", "normal", "high", "critical"],
      },
    ],
  },
  {
    title: "Placement",
    page: "concepts/placement.html#where-a-session-goes",
    settings: [
      {
        path: "placement",
        label: "Placement",
        hint: "Choice of the agent.",
        options: ["least_waste", "best_fit", "dot_product", "pack", "spread", "fgd", "random"],
      },
      {
        path: "allocation",
        label: "Allocation",
        hint: "Distribution of an amount over devices.",
        options: ["evenly", "fill"],
      },
      {
        path: "allow_fragmentation",
        label: "Split shares",
        hint: "Also shares that would fit on one device.",
        options: FLAG,
      },
      {
        path: "numa",
        label: "NUMA",
        hint: "Memory on one NUMA node, or interleaved.",
        options: ["prefer", "interleave"],
      },
    ],
  },
  {
    title: "Weights",
    page: "concepts/fair-share.html",
    settings: [
      {
        path: "weights.age",
        label: "Age",
        hint: "fair_share, relative_age: per unit of age, an hour and the backlog.",
      },
      { path: "weights.fair", label: "Fairness", hint: "fair_share: for users without usage." },
      { path: "weights.short", label: "Shortness", hint: "fair_share, relative_age: for the shortest sessions." },
      {
        path: "weights.short_half",
        label: "Short half",
        hint: "A session of this length gets half of the weight.",
        isDuration: true,
      },
      { path: "weights.priority", label: "Priority", hint: "fair_share, relative_age: per priority level." },
      { path: "weights.level", label: "Level", hint: "priority: waiting time worth one level.", isDuration: true },
      { path: "weights.sjf_age_pct", label: "Age in sjf, %", hint: "Share of the waiting time that counts." },
      {
        path: "weights.wait_bound",
        label: "Wait bound",
        hint: "A session that would wait longer is moved to the front; 0 s = off.",
        isDuration: true,
      },
      { path: "half_life", label: "Half-life", hint: "Usage this old counts half.", isDuration: true },
    ],
  },
  {
    title: "Preemption",
    page: "concepts/scheduling.html#priorities-and-preemption",
    settings: [
      {
        path: "preemption.preempt",
        label: "Preemptible sessions",
        hint: "Sessions that may be preempted.",
        options: ["none", "preemptible", "any"],
      },
      { path: "preemption.run_min", label: "Minimum run time", hint: "Before a preemption.", isDuration: true },
      { path: "preemption.preemptions_max", label: "Preemptions, at most", hint: "Per session." },
      { path: "preemption.grace", label: "Grace", hint: "From the signal to SIGKILL.", isDuration: true },
      { path: "preemption.restart", label: "Restart", hint: "las, srtf: until it works again.", isDuration: true },
      {
        path: "preemption.idle.action",
        label: "Unused GPUs",
        hint: "Sessions that do not use their GPUs. Pools and projects may differ.",
        options: ["off", "observe", "tell", "preempt", "end"],
      },
      { path: "preemption.idle.tell", label: "Tell the owner", hint: "After this idle time.", isDuration: true },
      { path: "preemption.idle.again", label: "Tell again", hint: "After this further time.", isDuration: true },
      { path: "preemption.idle.act", label: "Preempt or end", hint: "After this further time.", isDuration: true },
      { path: "preemption.idle.keep", label: "Still needed", hint: "For how long that counts.", isDuration: true },
    ],
  },
  {
    title: "Retries",
    page: "concepts/scheduling.html#the-policy",
    settings: [
      { path: "retries.tries_min", label: "Attempts, at least", hint: "Even if a session requests fewer." },
      { path: "retries.wait_first", label: "First wait", hint: "Doubled after each attempt.", isDuration: true },
      { path: "retries.wait_max", label: "Longest wait", hint: "A duration.", isDuration: true },
      { path: "retries.jitter_pct", label: "Jitter, %", hint: "Random change of each wait." },
    ],
  },
  {
    title: "Prices",
    page: "operating/billing.html#prices",
    settings: [
      {
        path: "prices.rates",
        label: "Prices",
        hint: "Per GPU and hour; the first that applies counts. Empty = nothing is billed. 0.5 hours=20-7; 2.5 model=*H100*; 1",
        words: { isRight: (text) => ratesOf(text) !== null, form: PRICES_FORM },
      },
      {
        path: "prices.currency",
        label: "Currency",
        hint: "Its name.",
        words: { isRight: (text) => /^[A-Za-z]{1,8}$/.test(text), form: "Enter 1 to 8 letters." },
      },
      {
        path: "prices.utc_offset_minutes",
        label: "Hours of the day, minutes ahead of UTC",
        hint: "60 = UTC+1.",
        words: { isRight: (text) => /^-?\d{1,4}$/.test(text), form: "Enter whole minutes, -1440 to 1440." },
      },
      {
        path: "prices.at_budget",
        label: "At 100 % of a budget",
        hint: "Hold new sessions, or give them the priority low.",
        options: ["hold", "low"],
      },
    ],
  },
];

export type Values = Readonly<Record<string, string>>;

const SETTINGS: readonly Setting[] = GROUPS.flatMap((group) => group.settings);

export function valuesOf(policy: PolicyPartsFragment): Values {
  return Object.fromEntries(SETTINGS.map(({ path }) => [path, textOf(path, valueAt(policy, path))]));
}

export interface Change {
  readonly path: string;
  readonly from: string;
  readonly to: string;
}

export function changesOf(before: Values, after: Values): Change[] {
  return SETTINGS.flatMap(({ path }) => {
    const [from = "", to = ""] = [before[path], after[path]];
    return from === to ? [] : [{ path, from, to }];
  });
}

/** Messages about invalid numbers and durations, by path. */
export function wrongsOf(values: Values): Readonly<Record<string, string>> {
  const bad = SETTINGS.filter(({ path, options, isDuration, words }) => {
    const text = values[path]?.trim() ?? "";
    if (words) return !words.isRight(text);
    return !options && (isDuration ? !(secondsOf(text) >= 0) : !isWhole(text));
  });
  return Object.fromEntries(
    bad.map(({ path, isDuration, words }) => [
      path,
      words?.form ?? (isDuration ? DURATION_FORM : (wholeWrong(values[path] ?? "") ?? "")),
    ]),
  );
}

/** The changes as API input; refused if the policy was changed after `version`. */
export function inputOf(changes: readonly Change[], version: number): UpdatePolicyInput {
  const input: Record<string, unknown> = { expected_version: version };
  for (const { path, to } of changes) {
    const names = path.split(".");
    const leaf = names.pop() ?? "";
    let part = input;
    for (const name of names) part = (part[name] ??= {}) as Record<string, unknown>;
    part[leaf] = typed(path, to);
  }
  return input as UpdatePolicyInput;
}

/** The input without a version, to try the changes. */
export function tryOf(changes: readonly Change[]): UpdatePolicyInput {
  const { expected_version: _, ...policy } = inputOf(changes, 0);
  return policy;
}

/** Left out of a document: not settings. */
const NOT_SETTINGS = new Set(["version", "changed_at", "changed_by", "__typename"]);

/**
 * API input of a text: a JSON document of settings, or NAME=VALUE on each line; `wrong` says what cannot be read.
 */
export function policyOf(text: string): { readonly input: UpdatePolicyInput | null; readonly wrong?: string } {
  if (text.trim().startsWith("{")) {
    try {
      const found = Object.entries(JSON.parse(text) as Record<string, unknown>);
      const own = found.filter(([name, value]) => value !== null && !NOT_SETTINGS.has(name));
      return { input: Object.fromEntries(own) as UpdatePolicyInput };
    } catch {
      return { input: null, wrong: "This is not a JSON document." };
    }
  }
  const values: Record<string, string> = {};
  for (const line of text.split("\n").filter((one) => one.trim() !== "")) {
    const [path = "", ...rest] = line.split("=");
    const setting = SETTINGS.find((one) => one.path === path.trim());
    const value = rest.join("=").trim();
    if (!setting) return { input: null, wrong: `There is no setting ${path.trim().slice(0, 40)}.` };
    if (setting.options && !setting.options.includes(value))
      return { input: null, wrong: `${setting.path} is one of ${setting.options.join(", ")}.` };
    values[setting.path] = value;
  }
  const wrongs = wrongsOf({ ...valuesAllowed(), ...values });
  const [first] = Object.entries(wrongs);
  if (first) return { input: null, wrong: `${first[0]}: ${first[1]}` };
  const { expected_version: _, ...input } = inputOf(
    Object.entries(values).map(([path, to]) => ({ path, from: "", to })),
    0,
  );
  return { input };
}

/** Every setting with a value that is allowed. */
const valuesAllowed = (): Values =>
  Object.fromEntries(SETTINGS.map(({ path }) => [path, path === "prices.currency" ? "EUR" : "0"]));

function typed(path: string, text: string): unknown {
  if (path === "prices.rates") return ratesOf(text);
  if (path === "prices.currency") return text.trim();
  const setting = SETTINGS.find((one) => one.path === path);
  if (setting?.options === FLAG) return text === "true";
  return setting?.options ? text : numberOf(path, text);
}

/** The number in a text: seconds where it is a duration; NaN where it is invalid. */
export function numberOf(path: string, text: string): number {
  return isDuration(path) ? secondsOf(text) : Number(text);
}

/** A value of the policy as text: durations like 7d, everything else unchanged. */
export function textOf(path: string, value: unknown): string {
  if (Array.isArray(value)) return ratesText(value as PolicyPartsFragment["prices"]["rates"]);
  return isDuration(path) && typeof value === "number" ? durationText(value) : String(value);
}

function isDuration(path: string): boolean {
  return SETTINGS.some((one) => one.path === path && one.isDuration);
}

function valueAt(policy: PolicyPartsFragment, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], policy);
}
