import type { Group } from "../example";

export const HISTORY: Group = {
  name: "History",
  examples: [
    {
      title: "history",
      query: `# What was measured over time: an agent's devices, the queue, and who held how many GPUs.
query History($agent_id: String!) {
  device_history(agent_id: $agent_id, points: 12) {
    started_at
    step
    series { device_id metric unit values maximum }
  }
  queue_history(points: 12) {
    started_at
    step
    series { metric unit values }
  }
  usage_history(by: project) {
    started_at
    step
    series { name gpu_hours utilization }
    warning
  }
}
`,
      variables: `{ "agent_id": "<first agent>" }`,
    },
    {
      title: "session history",
      query: `# What the devices of a session measured while it held them.
query SessionHistory($id: ID!) {
  session_history(id: $id, points: 60) {
    started_at
    step
    series { agent_id device_id metric unit values }
    warning
  }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "session steps",
      query: `# What a session went through, the newest step first, and for whom it made room.
query SessionSteps($id: ID!) {
  session_steps(id: $id, first: 20) {
    edges {
      node {
        at
        state
        attempt
        preemption { at cause by_user by_session lost_gpu_seconds }
      }
    }
    pageInfo { hasNextPage endCursor }
  }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "usage",
      query: `# Who has used what: all of it, this month, and as it counts for fair shares.
query Usage {
  usage { project user gpu_hours gpu_hours_month gpu_hours_decayed share }
}
`,
    },
    {
      title: "usage of the last hour",
      query: `# GPU hours by user and step, since an hour ago.
query UsageHistory($since: DateTime!) {
  usage_history(by: user, since: $since) { started_at step series { name gpu_hours utilization } warning }
}
`,
      variables: `{ "since": "<an hour ago>" }`,
    },
    {
      title: "audit",
      query: `# Who changed what, the newest first; and who held a device at a moment.
# For operators.
query Audit($device_id: String!, $at: DateTime!) {
  audit(filter: { people_only: true }, first: 10) {
    edges { node { number at actor kind entity_id fields { name before after } } }
  }
  held_by(device_id: $device_id, at: $at) { user session_id slot amount since until evidence }
}
`,
      variables: `{ "device_id": "<first device>", "at": "<now>" }`,
    },
    {
      title: "passes",
      query: `# What the allocator decided, pass by pass, the newest first.
# For operators.
query Passes {
  ledger_passes(first: 10) {
    edges { node { number at placed preempted failed code_version } }
  }
}
`,
    },
  ],
};
