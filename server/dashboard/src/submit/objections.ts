import { inLabels } from "../format/words";
import { EMPTY, variablesOf, type Field, type Form, type Wrongs } from "./form";
import { LABELS } from "./labels";

/** An error of the server about a request, and the input field that it names. */
export interface Objection {
  readonly message: string;
  readonly field: string | null;
}

/** Words that begin the server's sentences. Any other first word may be a user name, which keeps its case. */
const BEGINNING = /^(?:a|all|an|at|give|it|its|no|not|nothing|only|the|there|this|two|you)[ ,]/;

/** A message without the API's name of its field, beside which it is shown. */
function withoutName(message: string): string {
  const rest = inForm(message.replace(/^[a-z_]+: (?=[A-Za-z0-9])/, ""));
  return BEGINNING.test(rest) ? rest.charAt(0).toUpperCase() + rest.slice(1) : rest;
}

export function objectionOf(error: { readonly message: string; readonly field?: string | null }): Objection {
  return { message: error.message, field: error.field ?? null };
}

/** Fields of the form, by the server's names, where these differ. */
const FIELDS: Readonly<Record<string, Field>> = {
  gpu_memory_gb: "gpuMemory",
  estimated_duration: "estimate",
  time_limit: "limit",
  max_retries: "retries",
  cluster_size: "kernels",
  cluster_size_min: "kernelsMin",
  working_directory: "folder",
  depends_on: "dependencies",
  preferred_models: "preferredModels",
  preferred_labels: "preferredLabels",
  run_id: "runId",
  max_parallel: "maxParallel",
  checkpoint_signal: "checkpointSignal",
  checkpoint_every: "checkpointEvery",
  retries_own_failures: "retriesOwn",
};

/** The labels of the form, by the server's names of fields. */
const FIELD_LABELS: Readonly<Record<string, string>> = {
  ...LABELS,
  ...Object.fromEntries(
    Object.entries(FIELDS).map(([name, field]) => [name, (LABELS as Partial<Record<Field, string>>)[field] ?? name]),
  ),
};

/** A message about a request in the words of the form: `or for more kernels with "Kernels"`. */
export function inForm(message: string): string {
  return inLabels(message.replace(/^slots: /, ""), FIELD_LABELS);
}

/** The field of the form that an error is about. Without a field, the error's message begins with its name. */
export function objectedField({ message, field }: Objection, form: Form): Field | null {
  const name = field?.split(".")[0] ?? /^([a-z_]+): /.exec(message)?.[1] ?? "";
  if (name === "slots") return slotField(message, form);
  if (name === "limits") return form.processes ? "processes" : "openFiles";
  return FIELDS[name] ?? (Object.hasOwn(EMPTY, name) ? (name as Field) : null);
}

/** `slots: cpu: …`, `mem: …`, `slots: no agent has slot rocm.shares; …`. */
function slotField(message: string, form: Form): Field {
  const slot = /^(?:slots: )?(?:no agent has slot )?([\w.]+)[:;] /.exec(message)?.[1] ?? "";
  if (variablesOf(form.otherSlots).some(({ name }) => name === slot)) return "otherSlots";
  if (slot === "cpu" || slot === "mem") return slot;
  return form.slot ? "amount" : "cpu";
}

/** Errors of fields that were changed, and that of the server. */
export function shownWrongs(
  wrongs: Wrongs,
  touched: ReadonlySet<Field>,
  objection: Objection | null,
  form: Form,
): Wrongs {
  const own = Object.fromEntries(Object.entries(wrongs).filter(([field]) => touched.has(field as Field)));
  const field = objection && objectedField(objection, form);
  return field ? { ...own, [field]: withoutName(objection.message) } : own;
}
