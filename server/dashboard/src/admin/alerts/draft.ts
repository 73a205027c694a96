import type { NoticeRulesQuery, SetNoticeRuleInput } from "../../generated/graphql";
import type { Severity } from "../../alerts/tones";
import { duration, secondsOf } from "../../format/times";

export type Rule = NoticeRulesQuery["notice_rules"][number];

export const SEVERITIES: readonly { readonly id: Severity; readonly text: string }[] = [
  { id: "info", text: "info" },
  { id: "warning", text: "warning" },
  { id: "critical", text: "critical: told in quiet hours too" },
];

/** A rule as it is typed. */
export interface Draft {
  readonly isOn: boolean;
  readonly threshold: string;
  readonly floor: string;
  /** A time, like 10m. */
  readonly holds: string;
  readonly severity: Severity;
}

export function draftOf(rule: Rule): Draft {
  return {
    isOn: rule.is_on,
    threshold: rule.unit === "seconds" ? `${rule.threshold}s` : String(rule.threshold),
    floor: String(rule.floor),
    holds: `${rule.for_s}s`,
    severity: rule.severity,
  };
}

/** Above which it opens, in words; empty where it has no threshold. */
export function thresholdOf({ threshold, unit }: Rule): string {
  if (!unit) return "";
  if (unit === "seconds") return duration(threshold * 1000);
  return unit === "percent" ? `${threshold} %` : `${threshold} ${unit}`;
}

/** Whether so many sessions have to have ended before it counts. */
export function hasFloor({ rule }: Pick<Rule, "rule">): boolean {
  return rule === "failure_rate";
}

export function wrongsOf(rule: Rule, draft: Draft): Partial<Record<keyof Draft, string>> {
  const checks: readonly (readonly [keyof Draft, string | undefined])[] = [
    ["threshold", rule.unit ? thresholdWrong(rule, draft.threshold) : undefined],
    ["floor", hasFloor(rule) && !isWhole(draft.floor) ? "A whole number, 0 or more." : undefined],
    ["holds", secondsOf(draft.holds) >= 0 ? undefined : "A time, like 30s or 10m."],
  ];
  return Object.fromEntries(checks.filter(([, wrong]) => wrong));
}

/** What is changed, with the version that was seen; only for a draft in which nothing is wrong. */
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
  if (unit === "seconds") return secondsOf(text) >= 0 ? undefined : "A time, like 30m or 1d.";
  if (!isWhole(text)) return "A whole number, 0 or more.";
  return unit === "percent" && Number(text) > 100 ? "100 at most." : undefined;
}

function isWhole(text: string): boolean {
  return /^\d+$/.test(text.trim());
}
