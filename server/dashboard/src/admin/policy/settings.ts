import { DURATION_FORM, durationText, secondsOf } from "../../format/times";
import type { PolicyPartsFragment, UpdatePolicyInput } from "../../generated/graphql";

export interface Setting {
  /** Its path in the API: `order`, `weights.age`. */
  readonly path: string;
  readonly label: string;
  readonly hint: string;
  /** The valid values; without them it is a number or a duration. */
  readonly options?: readonly string[];
  /** Whether it is a duration: a number of seconds, or text like 7d. */
  readonly isDuration?: boolean;
}

export interface Group {
  readonly title: string;
  readonly settings: readonly Setting[];
}

const FLAG = ["true", "false"];

/** The settings of the policy page. */
export const GROUPS: readonly Group[] = [
  {
    title: "Order",
    settings: [
      {
        path: "order",
        label: "Order",
        hint: "Order of the queue.",
        options: ["fair_share", "priority", "fcfs", "sjf", "gang"],
      },
      {
        path: "backfill",
        label: "Backfill",
        hint: "Sessions that may start before the head of the queue.",
        options: ["none", "easy", "conservative"],
      },
      { path: "backfill_depth", label: "Backfill depth", hint: "conservative: sessions with a reservation." },
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
    settings: [
      { path: "weights.age", label: "Age", hint: "fair_share: per age unit waited." },
      { path: "weights.age_unit", label: "Age unit", hint: "A duration.", isDuration: true },
      { path: "weights.fair", label: "Fairness", hint: "fair_share: for users without usage." },
      { path: "weights.short", label: "Shortness", hint: "fair_share: for the shortest sessions." },
      {
        path: "weights.short_half",
        label: "Short half",
        hint: "A session of this length gets half of the weight.",
        isDuration: true,
      },
      { path: "weights.priority", label: "Priority", hint: "fair_share: per priority level." },
      { path: "weights.level", label: "Level", hint: "priority: waiting time worth one level.", isDuration: true },
      { path: "weights.sjf_age_pct", label: "Age in sjf", hint: "Share of the waiting time that counts, %." },
      { path: "half_life", label: "Half-life", hint: "Usage this old counts half.", isDuration: true },
    ],
  },
  {
    title: "Preemption",
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
    ],
  },
  {
    title: "Retries",
    settings: [
      { path: "retries.tries_min", label: "Attempts, at least", hint: "Even if a session requests fewer." },
      { path: "retries.wait_first", label: "First wait", hint: "Doubled after each attempt.", isDuration: true },
      { path: "retries.wait_max", label: "Longest wait", hint: "A duration.", isDuration: true },
      { path: "retries.jitter_pct", label: "Jitter", hint: "Random change of each wait, %." },
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
  const bad = SETTINGS.filter(({ path, options, isDuration }) => {
    const text = values[path]?.trim() ?? "";
    return !options && (isDuration ? !(secondsOf(text) >= 0) : !/^\d+(\.\d+)?$/.test(text));
  });
  return Object.fromEntries(
    bad.map(({ path, isDuration }) => [path, isDuration ? DURATION_FORM : "Enter a number, 0 or more."]),
  );
}

/** The changes as API input; refused if the policy was changed after `version`. */
export function inputOf(changes: readonly Change[], version: number): UpdatePolicyInput {
  const input: Record<string, unknown> = { expected_version: version };
  for (const { path, to } of changes) {
    const [head = "", leaf] = path.split(".");
    if (leaf) input[head] = { ...(input[head] as object | undefined), [leaf]: typed(path, to) };
    else input[head] = typed(path, to);
  }
  return input as UpdatePolicyInput;
}

function typed(path: string, text: string): string | number | boolean {
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
  return isDuration(path) && typeof value === "number" ? durationText(value) : String(value);
}

function isDuration(path: string): boolean {
  return SETTINGS.some((one) => one.path === path && one.isDuration);
}

function valueAt(policy: PolicyPartsFragment, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], policy);
}
