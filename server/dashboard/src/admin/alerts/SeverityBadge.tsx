import { TONES, type Severity } from "../../alerts/tones";

export function SeverityBadge({ of }: { readonly of: Severity }) {
  return <span className={`badge fill-${TONES[of]}`}>{of}</span>;
}
