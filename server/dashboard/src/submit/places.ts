import type { Planned } from "./previewing";

/** The devices of planned kernels, by agent: `demo-1: cuda0, cuda3 (0.50)`; without cores and memory. */
export function placesOf(kernels: Planned["kernels"], names: ReadonlyMap<string, string>): string[] {
  const byAgent = new Map<string, string[]>();
  for (const kernel of kernels) {
    const devices = kernel.resource_spec
      .filter(({ slot }) => slot !== "cpu" && slot !== "mem")
      .flatMap(({ devices: given }) =>
        given.map(({ device_id: id, amount }) => deviceWords(names.get(id) ?? id, amount)),
      );
    byAgent.set(kernel.agent_id, [...(byAgent.get(kernel.agent_id) ?? []), ...devices]);
  }
  return [...byAgent].map(([agent, devices]) => (devices.length ? `${agent}: ${devices.join(", ")}` : agent));
}

function deviceWords(name: string, amount: string): string {
  return Number(amount) === 1 ? name : `${name} (${amount})`;
}
