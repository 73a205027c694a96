import type { NoticeRulesQuery, SetNoticeRuleInput } from "../../generated/graphql";
import type { Severity } from "../../alerts/tones";
import { DURATION_FORM, duration, durationText, secondsOf } from "../../format/times";
import { isWhole } from "../../format/whole";

export type Rule = NoticeRulesQuery["notice_rules"][number];

export const SEVERITIES: readonly { readonly id: Severity; readonly text: string }[] = [
  { id: "info", text: "info" },
  { id: "warning", text: "warning" },
  { id: "critical", text: "critical: also sent in quiet hours" },
];

/** The form of a rule. */
export interface Draft {
  readonly isOn: boolean;
  readonly threshold: string;
  readonly floor: string;
  /** A duration, like 10m. */
  readonly holds: string;
  readonly severity: Severity;
}

export function draftOf(rule: Rule): Draft {
  return {
    isOn: rule.is_on,
    threshold: rule.unit === "seconds" ? durationText(rule.threshold) : String(rule.threshold),
    floor: String(rule.floor),
    holds: durationText(rule.for_s),
    severity: rule.severity,
  };
}

/** The threshold as text; empty where the rule has none. */
export function thresholdOf({ threshold, unit }: Rule): string {
  if (!unit) return "";
  if (unit === "seconds") return duration(threshold * 1000);
  return unit === "percent" ? `${threshold} %` : `${threshold} ${unit}`;
}

const WITH_FLOOR: ReadonlySet<Rule["rule"]> = new Set<Rule["rule"]>(["failure_rate", "session_overlong", "slow_twin"]);

/** Whether the rule needs a minimum number of sessions or GPUs to compare. */
export function hasFloor({ rule }: Pick<Rule, "rule">): boolean {
  return WITH_FLOOR.has(rule);
}

export function wrongsOf(rule: Rule, draft: Draft): Partial<Record<keyof Draft, string>> {
  const checks: readonly (readonly [keyof Draft, string | undefined])[] = [
    ["threshold", rule.unit ? thresholdWrong(rule, draft.threshold) : undefined],
    ["floor", hasFloor(rule) && !isWhole(draft.floor) ? "Enter a whole number, 0 or more." : undefined],
    ["holds", secondsOf(draft.holds) >= 0 ? undefined : DURATION_FORM],
  ];
  return Object.fromEntries(checks.filter(([, wrong]) => wrong));
}

/** The input of a valid draft, with the version that it was made from. */
export function inputOf(rule: Rule, draft: Draft): SetNoticeRuleInput {
  return {
    rule: rule.rule,
    is_on: draft.isOn,
    for_s: Math.round(secondsOf(draft.holds)),
    severity: draft.severity,
    expected_version: rule.version,
    ...(rule.unit && {
      threshold: rule.unit === "seconds" ? Math.round(secondsOf(draft.threshold)) : Number(draft.threshold),
    }),
    ...(hasFloor(rule) && { floor: Number(draft.floor) }),
  };
}

function thresholdWrong({ unit }: Rule, text: string): string | undefined {
  if (unit === "seconds") return secondsOf(text) >= 0 ? undefined : DURATION_FORM;
  if (!isWhole(text)) return "Enter a whole number, 0 or more.";
  return unit === "percent" && Number(text) > 100 ? "Enter at most 100." : undefined;
}
