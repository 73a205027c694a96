import type { Field, Wrongs } from "./form";

/** The names of the fields, as the form shows them. */
export const LABELS = {
  command: "Command",
  name: "Name",
  project: "Project",
  folder: "Working directory",
  workspace: "Uploaded files",
  image: "Image",
  activates: "Activate",
  environment: "Environment",
  apps: "Web services",
  tags: "Tags",
  amount: "GPUs",
  models: "GPU model",
  cpu: "Cores",
  mem: "Memory",
  kernels: "Kernels",
  gpuMemory: "Memory per device, GB",
  pool: "Pool",
  priority: "Priority",
  estimate: "Estimate",
  limit: "Time limit",
  array: "Array",
  maxParallel: "Tasks at a time",
  booking: "Booking",
  dependencies: "Dependencies",
  retries: "Retries",
  preflight: "Check first",
  preflightLimit: "Limit of the check",
  checkpointSignal: "Checkpoint signal",
  checkpointEvery: "Checkpoint every",
  grace: "Grace",
  kernelsMin: "Start with fewer kernels",
  topology: "Network switches",
  labels: "Labels of the node",
  preferredLabels: "Preferred labels",
  preferredModels: "Preferred models",
  otherSlots: "Other slots",
  runId: "Run id",
  processes: "Processes",
  openFiles: "Open files",
  secrets: "Secrets",
} as const satisfies Partial<Record<Field, string>>;

/** `2 fields to correct: Command, GPUs.` */
export function correctText(wrongs: Wrongs): string {
  const names = Object.keys(LABELS).filter((field) => field in wrongs) as (keyof typeof LABELS)[];
  const count = names.length === 1 ? "1 field" : `${names.length} fields`;
  return `${count} to correct: ${names.map((field) => LABELS[field]).join(", ")}.`;
}
