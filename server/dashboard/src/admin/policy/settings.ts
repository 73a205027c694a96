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
        hint: "Which waiting session comes first.",
        options: ["fair_share", "relative_age", "priority", "fcfs", "sjf", "gang", "las", "srtf"],
      },
      {
        path: "backfill",
        label: "Backfill",
        hint: "Which sessions may start before the first one while it does not fit.",
        options: ["none", "easy", "conservative"],
      },
      {
        path: "backfill_depth",
        label: "Backfill depth, sessions",
        hint: "conservative: how many waiting sessions get a reservation.",
      },
      {
        path: "user_priority_max",
        label: "Highest priority",
        hint: "The highest that users may choose; operators may set any.",
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
        hint: "Which agent a session goes to.",
        options: ["least_waste", "best_fit", "dot_product", "pack", "spread", "fgd", "random"],
      },
      {
        path: "allocation",
        label: "Allocation",
        hint: "How an amount is divided among devices.",
        options: ["evenly", "fill"],
      },
      {
        path: "allow_fragmentation",
        label: "Split shares",
        hint: "Whether a share of one device may be divided among several.",
        options: FLAG,
      },
      {
        path: "numa",
        label: "NUMA",
        hint: "Which of equal devices are taken: those of one NUMA node, or of all in turn.",
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
        hint: "fair_share, relative_age: for each unit of waiting, which is 1 h plus the backlog.",
      },
      {
        path: "weights.fair",
        label: "Fairness",
        hint: "fair_share: what a user without usage gets; less with more usage.",
      },
      { path: "weights.short", label: "Shortness", hint: "fair_share, relative_age: what the shortest sessions get." },
      {
        path: "weights.short_half",
        label: "Short half",
        hint: "A session of this length gets half of the weight for shortness.",
        isDuration: true,
      },
      { path: "weights.priority", label: "Priority", hint: "fair_share, relative_age: for each level of priority." },
      {
        path: "weights.level",
        label: "Level",
        hint: "priority: how long a session waits until it equals the next level.",
        isDuration: true,
      },
      {
        path: "weights.sjf_age_pct",
        label: "Age in sjf, %",
        hint: "sjf: part of the waiting time that is subtracted from the run time.",
      },
      {
        path: "weights.wait_bound",
        label: "Wait bound",
        hint: "A session that would wait longer comes first; 0 s = off.",
        isDuration: true,
      },
      {
        path: "half_life",
        label: "Half-life",
        hint: "After this time, usage counts half in fair_share.",
        isDuration: true,
      },
    ],
  },
  {
    title: "Preemption",
    page: "concepts/scheduling.html#priorities-and-preemption",
    settings: [
      {
        path: "preemption.preempt",
        label: "Preemptible sessions",
        hint: "Which sessions may be preempted.",
        options: ["none", "preemptible", "any"],
      },
      {
        path: "preemption.run_min",
        label: "Minimum run time",
        hint: "A session runs at least this long before it is preempted.",
        isDuration: true,
      },
      { path: "preemption.preemptions_max", label: "Preemptions, at most", hint: "Per session." },
      { path: "preemption.grace", label: "Grace", hint: "Time from the first signal to SIGKILL.", isDuration: true },
      {
        path: "preemption.restart",
        label: "Restart",
        hint: "las, srtf: time that a restarted session needs until it works again.",
        isDuration: true,
      },
      {
        path: "preemption.idle.action",
        label: "Unused GPUs",
        hint: "What happens to sessions that do not use their GPUs. Pools and projects may have another rule.",
        options: ["off", "observe", "tell", "preempt", "end"],
      },
      {
        path: "preemption.idle.tell",
        label: "First notice",
        hint: "Unused for this long: the owner gets a notice.",
        isDuration: true,
      },
      {
        path: "preemption.idle.again",
        label: "Second notice",
        hint: "Time from the first notice to the second.",
        isDuration: true,
      },
      { path: "preemption.idle.act", label: "Preempt or end", hint: "Time from the second notice.", isDuration: true },
      {
        path: "preemption.idle.keep",
        label: "Still needed",
        hint: "How long an owner's answer that it is still needed counts.",
        isDuration: true,
      },
    ],
  },
  {
    title: "Retries",
    page: "concepts/scheduling.html#the-policy",
    settings: [
      {
        path: "retries.tries_min",
        label: "Attempts, at least",
        hint: "After failures of the system, even if a session requests fewer.",
      },
      {
        path: "retries.wait_first",
        label: "First wait",
        hint: "Time before the second attempt; doubled after each further one.",
        isDuration: true,
      },
      { path: "retries.wait_max", label: "Longest wait", hint: "Limit of the doubled time.", isDuration: true },
      { path: "retries.jitter_pct", label: "Jitter, %", hint: "Random part of each time between attempts." },
    ],
  },
  {
    title: "Prices",
    page: "operating/billing.html#prices",
    settings: [
      {
        path: "prices.rates",
        label: "Prices",
        hint: "Per GPU and hour, like 0.5 hours=20-7; 2.5 model=*H100*; 1. The first that applies counts. Empty = nothing is billed.",
        words: { isRight: (text) => ratesOf(text) !== null, form: PRICES_FORM },
      },
      {
        path: "prices.currency",
        label: "Currency",
        hint: "Name of the currency, like EUR.",
        words: { isRight: (text) => /^[A-Za-z]{1,8}$/.test(text), form: "Enter 1 to 8 letters." },
      },
      {
        path: "prices.utc_offset_minutes",
        label: "Hours of the day, minutes ahead of UTC",
        hint: "Difference of your time from UTC, for hours= in prices; 60 = UTC+1.",
        words: { isRight: (text) => /^-?\d{1,4}$/.test(text), form: "Enter whole minutes, -1440 to 1440." },
      },
      {
        path: "prices.at_budget",
        label: "At 100 % of a budget",
        hint: "Hold waiting sessions until the next month, or give them the priority low.",
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
