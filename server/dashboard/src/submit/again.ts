import type { Session } from "../session/loading";
import { durationText } from "../format/times";
import { commandOf, writtenOf } from "../session/command";
import { EMPTY, OWN_CHECK, type Form, type Pair } from "./form";

/** The label of agents that sessions with a sandbox require. */
const SANDBOX_LABEL = "aliquot.sandbox";
/** The label of agents that can run containers. */
const IMAGES_LABEL = "aliquot.images";
/** The time limit of a check that has none of its own. */
const CHECK_LIMIT_S = 60;

/**
 * A form with the request of a session.
 *
 * @param bookings ids of the open bookings; that of the session is kept only if it is among them.
 */
export function formOf(session: Session, bookings: ReadonlySet<string> = new Set()): Form {
  const slots = new Map(session.slots.map(({ slot, amount }) => [slot, amount]));
  const [accelerator = "", ...others] = acceleratorsOf(session);
  const { text, around } = writtenOf(session.command);
  return {
    ...EMPTY,
    command: text,
    around,
    slot: accelerator,
    amount: slots.get(accelerator) ?? "",
    otherSlots: others.map((slot) => `${slot}=${slots.get(slot)}`).join("\n"),
    kernels: String(session.cluster_size),
    cpu: slots.get("cpu") ?? "",
    mem: slots.get("mem") ?? "",
    gpuMemory: session.gpu_memory_gb ?? "",
    name: session.name ?? "",
    priority: session.priority,
    estimate: seconds(session.estimated_duration),
    limit: seconds(session.time_limit),
    retries: String(session.max_retries),
    retriesOwn: session.retries_own_failures,
    project: session.project,
    pool: session.pool,
    array: indicesOf(session),
    maxParallel: session.tasks?.max_parallel ? String(session.tasks.max_parallel) : "",
    environment: pairs(session.environment.filter(isShort)),
    environmentLong: session.environment.filter((pair) => !isShort(pair)).map(pairOf),
    folder: session.working_directory ?? "",
    workspace: session.workspace ?? "",
    activates: session.activates ?? "",
    image: session.image ?? "",
    isShared: session.shares_access,
    isPreemptible: session.preemptible,
    checkpointSignal: session.checkpoint_signal ?? "",
    checkpointEvery: seconds(session.checkpoint_every),
    kernelsMin: session.cluster_size_min === null ? "" : String(session.cluster_size_min),
    topology: session.topology,
    grace: seconds(session.grace),
    isSandboxed: session.labels.some(({ name }) => name === SANDBOX_LABEL),
    tags: pairs(session.tags.filter(isShort)),
    tagsLong: session.tags.filter((pair) => !isShort(pair)).map(pairOf),
    ...checkOf(session.preflight),
    apps: session.services.map(({ name, asked_port }) => (asked_port ? `${name}=${asked_port}` : name)).join(" "),
    models: session.models.join(", "),
    preferredModels: session.preferred_models.join(", "),
    labels: pairs(session.labels.filter(({ name }) => name !== SANDBOX_LABEL && name !== IMAGES_LABEL)),
    preferredLabels: pairs(session.preferred_labels),
    dependencies: session.depends_on.map(({ session_id, condition }) => `${session_id} ${condition}`).join("\n"),
    booking: session.booking !== null && bookings.has(session.booking) ? session.booking : "",
    runId: session.run_id ?? "",
    fallbacks: session.fallbacks.map(({ slots, cluster_size, gpu_memory_gb, after }) => ({
      slots,
      cluster_size,
      gpu_memory_gb,
      after_s: after,
    })),
  };
}

/** The parts of a session's request that are not copied, as text: those hidden from the viewer. */
export function leftOutOf(session: Session): string[] {
  return session.hidden.filter((name) => REQUEST_FIELDS.has(name)).map((name) => name.replaceAll("_", " "));
}

/** Fields of a request that may be hidden; the others that may be are results. */
const REQUEST_FIELDS = new Set([
  "command",
  "environment",
  "services",
  "working_directory",
  "workspace",
  "activates",
  "image",
  "preflight",
  "run_id",
  "tags",
]);

function acceleratorsOf({ slots }: Session): string[] {
  return slots.map(({ slot }) => slot).filter((slot) => slot !== "cpu" && slot !== "mem");
}

/** The indices of all tasks of an array, in any state; empty for a single task. */
function indicesOf({ tasks }: Session): string {
  if (!tasks) return "";
  const { waiting, active, completed, failed, canceled } = tasks;
  return [waiting, active, completed, failed, canceled]
    .map(({ indices }) => indices)
    .filter((indices) => indices !== "")
    .join(",");
}

function seconds(value: number | null): string {
  return value === null ? "" : durationText(value);
}

/** The check before a command, as the form has it. */
function checkOf(check: Session["preflight"]): Pick<Form, "preflight" | "preflightLimit"> {
  if (check === null) return { preflight: "", preflightLimit: "" };
  const preflightLimit = check.time_limit === CHECK_LIMIT_S ? "" : durationText(check.time_limit);
  return { preflight: commandOf(check.command) || OWN_CHECK, preflightLimit };
}

/** Whether the form's text, with one line each, can hold it. */
function isShort({ value }: Pair): boolean {
  return !/[\r\n]/.test(value);
}

function pairOf({ name, value }: Pair): Pair {
  return { name, value };
}

function pairs(list: readonly Pair[]): string {
  return list.map(({ name, value }) => `${name}=${value}`).join("\n");
}
