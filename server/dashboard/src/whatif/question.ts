import { DURATION_FORM, secondsOf } from "../format/times";
import type { WhatIfInput } from "../generated/graphql";
import { policyOf } from "../admin/policy/settings";

/** The question as typed; empty fields ask nothing. */
export interface Question {
  readonly gpus: string;
  readonly kernels: string;
  readonly limit: string;
  readonly project: string;
  readonly pool: string;
  /** The agent to drain. */
  readonly drain: string;
  /** Whether its sessions are preempted: "1". */
  readonly evict: string;
  /** The agent that others like it are added to. */
  readonly like: string;
  readonly count: string;
  /** A policy document, or NAME=VALUE on each line. */
  readonly policy: string;
}

export type Wrongs = Partial<Record<keyof Question, string>>;

export const NOTHING: Question = {
  gpus: "",
  kernels: "",
  limit: "",
  project: "",
  pool: "",
  drain: "",
  evict: "",
  like: "",
  count: "",
  policy: "",
};

const NAMES = Object.keys(NOTHING) as (keyof Question)[];
const AGENTS_MAX = 64;

export function questionOf(search: URLSearchParams): Question {
  return Object.fromEntries(NAMES.map((name) => [name, search.get(name) ?? ""])) as unknown as Question;
}

/** The inverse of `questionOf`. */
export function searchOf(question: Question): string {
  const search = new URLSearchParams();
  for (const name of NAMES) if (question[name]) search.set(name, question[name]);
  return search.toString();
}

export function wrongsOf(question: Question): Wrongs {
  const isWhole = (text: string, most: number) => /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= most;
  const wrongs: readonly (readonly [keyof Question, string | undefined])[] = [
    [
      "gpus",
      question.gpus && !(Number(question.gpus) > 0) ? "Enter a number of GPUs, like 2, or a part of one." : undefined,
    ],
    ["kernels", question.kernels && !isWhole(question.kernels, 4096) ? "Enter a whole number, 1 or more." : undefined],
    ["limit", question.limit && !(secondsOf(question.limit) > 0) ? DURATION_FORM : undefined],
    [
      "count",
      question.count && !isWhole(question.count, AGENTS_MAX) ? `Enter a number from 1 to ${AGENTS_MAX}.` : undefined,
    ],
    ["policy", question.policy ? policyOf(question.policy).wrong : undefined],
  ];
  return Object.fromEntries(wrongs.filter(([, wrong]) => wrong)) as Wrongs;
}

/** The input of the API; null if nothing is asked, or something is typed wrongly. */
export function inputOf(question: Question): WhatIfInput | null {
  const { gpus, kernels, limit, project, pool, drain, evict, like, count, policy } = question;
  if (Object.keys(wrongsOf(question)).length || !(gpus || drain || like || policy)) return null;
  const slot = Number.isInteger(Number(gpus)) ? "cuda.device" : "cuda.shares";
  return {
    ...(gpus && {
      session: {
        command: { argv: ["true"] },
        slots: [{ slot, amount: gpus.trim() }],
        cluster_size: Number(kernels || 1),
        ...(limit && { time_limit: secondsOf(limit) }),
        ...(project && { project }),
        ...(pool && { pool }),
      },
    }),
    ...(drain && { drain, evict: evict === "1" }),
    ...(like && { like, count: Number(count || 1) }),
    ...(policy && { policy: policyOf(policy).input }),
  };
}
