import type { PolicyPartsFragment, UpdatePolicyInput } from "../../generated/graphql";

export interface Setting {
  /** As in the API: `order`, `weights.age`. */
  readonly path: string;
  readonly label: string;
  readonly hint: string;
  /** The values there are; without them it is a number. */
  readonly options?: readonly string[];
}

export interface Group {
  readonly title: string;
  readonly settings: readonly Setting[];
}

const FLAG = ["true", "false"];

/** What of the policy is set on its page. */
export const GROUPS: readonly Group[] = [
  {
    title: "Who is next",
    settings: [
      {
        path: "order",
        label: "Order",
        hint: "Who is next.",
        options: ["fair_share", "priority", "fcfs", "sjf", "gang"],
      },
      {
        path: "backfill",
        label: "Backfill",
        hint: "Who may pass the head of the queue.",
        options: ["none", "easy", "conservative"],
      },
      { path: "backfill_depth", label: "Backfill depth", hint: "conservative: so many hold a reservation." },
      {
        path: "user_priority_max",
        label: "Highest priority",
        hint: "That a user may ask for.",
        options: ["low", "normal", "high", "critical"],
      },
    ],
  },
  {
    title: "Where it goes",
    settings: [
      {
        path: "placement",
        label: "Placement",
        hint: "Which agent.",
        options: ["least_waste", "best_fit", "dot_product", "pack", "spread", "fgd", "random"],
      },
      {
        path: "allocation",
        label: "Allocation",
        hint: "How an amount is spread over devices.",
        options: ["evenly", "fill"],
      },
      {
        path: "allow_fragmentation",
        label: "Split shares",
        hint: "Also those that one device could hold.",
        options: FLAG,
      },
      { path: "numa", label: "NUMA", hint: "One node of memory, or all of them.", options: ["prefer", "interleave"] },
    ],
  },
  {
    title: "Weights",
    settings: [
      { path: "weights.age", label: "Age", hint: "fair_share: for every age unit waited." },
      { path: "weights.age_unit", label: "Age unit", hint: "Seconds." },
      { path: "weights.fair", label: "Fairness", hint: "fair_share: for who has used nothing." },
      { path: "weights.short", label: "Shortness", hint: "fair_share: for what is over at once." },
      { path: "weights.short_half", label: "Short half", hint: "Seconds; so long gets half of it." },
      { path: "weights.priority", label: "Priority", hint: "fair_share: for every level." },
      { path: "weights.level", label: "Level", hint: "priority: seconds that make up for one." },
      { path: "weights.sjf_age_pct", label: "Age in sjf", hint: "Part of the wait that counts, %." },
      { path: "half_life", label: "Half-life", hint: "Seconds after which a use counts half." },
    ],
  },
  {
    title: "Making room",
    settings: [
      {
        path: "preemption.victims",
        label: "Who may be asked",
        hint: "To make room.",
        options: ["nobody", "willing", "any"],
      },
      { path: "preemption.run_min", label: "Left alone for", hint: "Seconds." },
      { path: "preemption.preemptions_max", label: "So often at most", hint: "Times for one session." },
      { path: "preemption.grace", label: "Grace", hint: "Seconds to the stop." },
    ],
  },
  {
    title: "Trying again",
    settings: [
      { path: "retries.tries_min", label: "Tries", hint: "Even when fewer were asked for." },
      { path: "retries.wait_first", label: "First wait", hint: "Seconds, doubled from try to try." },
      { path: "retries.wait_max", label: "Longest wait", hint: "Seconds." },
      { path: "retries.jitter_pct", label: "Jitter", hint: "Each wait is moved by so much, %." },
    ],
  },
];

export type Values = Readonly<Record<string, string>>;

const SETTINGS: readonly Setting[] = GROUPS.flatMap((group) => group.settings);

export function valuesOf(policy: PolicyPartsFragment): Values {
  return Object.fromEntries(SETTINGS.map(({ path }) => [path, String(valueAt(policy, path))]));
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

/** What is not a number where one is asked for, by path. */
export function wrongsOf(values: Values): Readonly<Record<string, string>> {
  const bad = SETTINGS.filter(({ path, options }) => !options && !/^\d+(\.\d+)?$/.test(values[path]?.trim() ?? ""));
  return Object.fromEntries(bad.map(({ path }) => [path, "A number, 0 or more."]));
}

/** The changes alone, as the API takes them, refused when somebody else has changed the policy meanwhile. */
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
  return setting?.options ? text : Number(text);
}

function valueAt(policy: PolicyPartsFragment, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], policy);
}
