import type { Severity } from "./draft";

const FILLS = { critical: "bad", warning: "warn", info: "quiet" } as const;

export function SeverityBadge({ of }: { readonly of: Severity }) {
  return <span className={`badge fill-${FILLS[of]}`}>{of}</span>;
}
