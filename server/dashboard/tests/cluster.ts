import type { Agent, Device, Holder } from "../src/cluster/nodes";

export const NOW = Date.parse("2026-05-02T12:00:00Z");

export function holder(part: Partial<Holder> = {}): Holder {
  return {
    lease_id: "lea_1",
    kind: "session",
    user: "ada",
    session_id: "ses_1",
    share: "0.50",
    since: "2026-05-02T11:00:00Z",
    until: null,
    isolation: "none",
    ...part,
  };
}

export function device(part: Partial<Device> = {}): Device {
  return {
    id: "gpu-0",
    name: "cuda0",
    kind: "cuda",
    model: "H100",
    health: "healthy",
    foreign_usage: false,
    foreign_users: [],
    isolation: "none",
    numa_node: 0,
    link_group: null,
    parent_id: null,
    memory_bytes: 85_899_345_920,
    capacity: "1.00",
    used: "0.00",
    free: "1.00",
    utilization_pct: 50,
    memory_used_bytes: 0,
    temperature_c: 40,
    power_w: 100,
    holders: [],
    ...part,
  };
}

export function agent(devices: readonly Device[], part: Partial<Agent> = {}): Agent {
  return {
    id: "agent-1",
    node_id: "node-1",
    hostname: "host-1",
    state: "alive",
    schedulable: true,
    draining: false,
    drained: false,
    note: null,
    pool: "default",
    devices,
    ...part,
  };
}
