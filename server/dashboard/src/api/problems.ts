import { Refusal } from "./client";

/** A problem of the server, such as a full disk or a certificate that expires. */
export interface Problem {
  readonly code: string;
  readonly message: string;
}

/** The problems of the server that answers. It answers 503 while it has one that keeps it from serving. */
export async function problemsOfServer(): Promise<readonly Problem[]> {
  try {
    const report = (await (await fetch("/readyz")).json()) as { details?: readonly Problem[] };
    return report.details ?? [];
  } catch {
    throw new Refusal({ kind: "away", message: "The server cannot be reached.", mayHaveBegun: false });
  }
}
