import { amountOf } from "../format/amounts";
import type { Agent, Device } from "../cluster/nodes";
import type { Form } from "./form";

export interface Fit {
  /** The agents that have room now, with how many kernels each would take. */
  readonly places: readonly { readonly agent: string; readonly kernels: number }[];
  /** Kernels that fit now; not more than are asked for. */
  readonly now: number;
  readonly asked: number;
  /** Kernels that fit when nobody holds anything: fewer than asked for is never. */
  readonly everFits: number;
}

/** Enough to count as all; exact counts beyond it help nobody. */
const MANY = 1_000_000;

/**
 * Where a request would find room, by what is free now. An estimate: it knows no queue, quota or label, and the
 * scheduler decides.
 */
export function fitOf(form: Form, agents: readonly Agent[]): Fit {
  const asked = Number(form.kernels);
  const able = agents.filter((agent) => agent.state !== "left" && (!form.pool || agent.pool === form.pool));
  const open = able.filter((agent) => agent.state === "alive" && agent.schedulable && !agent.draining);
  const places: { agent: string; kernels: number }[] = [];
  let now = 0;
  for (const agent of open) {
    const kernels = Math.min(kernelsOn(form, agent.devices, freeOf), asked - now);
    if (kernels > 0) places.push({ agent: agent.id, kernels });
    now += Math.max(0, kernels);
  }
  const ever = able.reduce((sum, agent) => sum + kernelsOn(form, agent.devices, capacityOf), 0);
  return { places, now, asked, everFits: Math.min(ever, asked) };
}

type Amount = (device: Device) => number;

const freeOf: Amount = (device) => (device.health === "healthy" ? amountOf(device.free) : 0);
const capacityOf: Amount = (device) => amountOf(device.capacity);

function kernelsOn(form: Form, devices: readonly Device[], amount: Amount): number {
  const [kind = "", unit = ""] = form.slot.split(".");
  const gpuBytes = Number(form.gpuMemory || 0) * 1e9;
  const accelerators = devices.filter((device) => device.kind === kind && device.memory_bytes >= gpuBytes);
  const rooms = [
    form.slot ? roomOn(unit, Number(form.amount), accelerators, amount) : MANY,
    form.cpu ? Math.floor(sumOf(devices, "cpu", amount) / Number(form.cpu)) : MANY,
    form.mem ? Math.floor(sumOf(devices, "mem", amount) / amountOf(form.mem)) : MANY,
  ];
  return devices.length ? Math.min(...rooms) : 0;
}

function roomOn(unit: string, wanted: number, devices: readonly Device[], amount: Amount): number {
  if (unit === "device") {
    const whole = devices.filter((device) => amount(device) >= amountOf(device.capacity));
    return Math.floor(whole.length / wanted);
  }
  const largest = Math.max(0, ...devices.map(capacityOf));
  if (wanted <= largest) return devices.reduce((sum, device) => sum + Math.floor(amount(device) / wanted + 1e-9), 0);
  return Math.floor(spread(wanted, devices, amount));
}

/** More than one device holds: equal parts on some number of them. */
function spread(wanted: number, devices: readonly Device[], amount: Amount): number {
  for (let count = Math.ceil(wanted); count <= devices.length; count += 1) {
    const able = devices.filter((device) => amount(device) >= wanted / count - 1e-9);
    if (able.length >= count) return able.length / count;
  }
  return 0;
}

function sumOf(devices: readonly Device[], kind: string, amount: Amount): number {
  return devices.filter((device) => device.kind === kind).reduce((sum, device) => sum + amount(device), 0);
}
