import type { AlertPartsFragment } from "../generated/graphql";

export type Severity = AlertPartsFragment["severity"];

export const TONES = { critical: "bad", warning: "warn", info: "quiet" } as const satisfies Record<Severity, string>;
