import { ask } from "../api/client";
import { useLive, type Live } from "../api/live";
import { PreviewDocument, type CreateSessionInput, type PreviewQuery } from "../generated/graphql";
import { useSettled } from "../parts/settled";
import { idsIn } from "../queue/WithLinks";
import { learnNames } from "../session/names";

export type Answer = PreviewQuery["preview_session"];
export type Planned = Extract<Answer, { __typename: "SessionPreview" }>;

/** The scheduler's preview of a request; refreshed with every event. Null while there is no request. */
export function usePreview(request: CreateSessionInput | null): Live<Answer | null> {
  const key = useSettled(request ? JSON.stringify(request) : "");
  return useLive(() => load(key), key, { wants: () => key !== "", everyMs: 10_000 });
}

async function load(key: string): Promise<Answer | null> {
  if (!key) return null;
  const answer = (await ask(PreviewDocument, { input: JSON.parse(key) as CreateSessionInput })).preview_session;
  await learnNames(idsInAnswer(answer));
  return answer;
}

/** The ids of sessions in a preview's message. */
export function idsInAnswer(answer: Answer): string[] {
  return idsIn("message" in answer ? answer.message : (answer.waits?.message ?? ""));
}
