import presets from "../../../../schema/aliquot_schema/presets.json";
import { change, Refusal } from "../api/client";
import { SubmitDocument } from "../generated/graphql";
import { showNotice } from "../parts/notices";
import { EMPTY, requestOf, type Form } from "./form";

/** The time limit of a program that runs until it is stopped. */
const LIMIT = "8h";

export interface Preset {
  readonly title: string;
  readonly form: Form;
}

/** Forms of programs with a page of their own. */
export const PRESETS: readonly Preset[] = Object.entries(presets).map(([name, preset]) => ({
  title: preset.title,
  form: {
    ...EMPTY,
    name,
    command: preset.command,
    slot: preset.slot,
    amount: preset.amount || EMPTY.amount,
    cpu: preset.slot ? "" : "1",
    apps: preset.app,
    limit: LIMIT,
    ...("kernels" in preset && { kernels: preset.kernels }),
    ...("array" in preset && { array: preset.array, maxParallel: preset.maxParallel }),
  },
}));

/** The form of a notebook. */
export const NOTEBOOK: Form = PRESETS.find(({ title }) => title === presets.jupyter.title)?.form ?? EMPTY;

/** Submits a notebook; returns the address of its session's page, which opens it when it runs. */
export async function submitNotebook(form: Form): Promise<string | null> {
  try {
    const outcome = (await change(SubmitDocument, { input: requestOf(form) })).create_session;
    if ("session" in outcome) return `/sessions/${outcome.session.id}?open=${presets.jupyter.app}`;
    showNotice({ tone: "bad", text: "message" in outcome ? outcome.message : "The notebook was refused." });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    showNotice({ tone: "bad", text: error.message });
  }
  return null;
}
