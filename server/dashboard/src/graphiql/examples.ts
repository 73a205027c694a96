/** Ready to run, one of every kind. The first is what an agent has given of each GPU. */
export const EXAMPLES: readonly { readonly title: string; readonly query: string; readonly variables?: string }[] = [
  {
    title: "gpu_alloc_map",
    query: `# How much of each GPU of one agent is held. Take the agent's id from the tab "agents".
query AllocMap($agent_id: String!) {
  agent(agent_id: $agent_id) {
    gpu_alloc_map
  }
}
`,
    variables: `{ "agent_id": "demo-1" }`,
  },
  {
    title: "agents",
    query: `# Agents, and who holds which part of which device.
query Agents {
  agents(first: 20) {
    total_count
    edges {
      node {
        id
        state
        occupied { slot amount }
        devices {
          name
          used
          free
          holders { user session_id share until }
        }
      }
    }
  }
}
`,
  },
  {
    title: "submit",
    query: `# Submits a session; __typename says whether it was taken.
mutation Submit {
  create_session(
    input: {
      command: { shell: "for i in 1 2 3 4 5; do echo step $i; sleep 1; done" }
      slots: [{ slot: "cuda.shares", amount: "0.5" }]
      name: "from-graphiql"
    }
  ) {
    __typename
    ... on CreateSessionSuccess { session { id state } revision }
    ... on Error { code message }
  }
}
`,
  },
  {
    title: "preview",
    query: `# What would become of a session if it were submitted now. Changes nothing.
query Preview {
  preview_session(input: { command: { argv: ["true"] }, slots: [{ slot: "cuda.device", amount: "2" }] }) {
    __typename
    ... on SessionPreview {
      starts_now
      kernels { rank agent_id resource_spec { slot devices { device_id amount } } }
      queue_position
      waits { reason message }
      expected_start
      displaces { session_id owner }
    }
    ... on Error { code message }
  }
}
`,
  },
  {
    title: "queue",
    query: `# Who waits, in the order in which the allocator looks, and why.
query Queue {
  queue(first: 20) {
    total_count
    edges {
      node {
        position
        session { id name owner priority waits { reason message blocked_by } }
      }
    }
  }
}
`,
  },
  {
    title: "sessions",
    query: `# The newest sessions. Go on with after: the endCursor of this page.
query Sessions($after: String) {
  sessions(filter: { states: [running, completed, failed] }, first: 10, after: $after) {
    edges { node { id name state exit_code kernels { rank agent_id state } } }
    pageInfo { hasNextPage endCursor }
  }
}
`,
  },
  {
    title: "events",
    query: `# Every change of a session, live. Add (after: NUMBER) to go on after an event.
subscription Events {
  queue_updates {
    event_number
    kind
    pending
    session { id name state }
  }
}
`,
  },
  {
    title: "log",
    query: `# The output of one rank, followed to its end.
subscription Log($id: ID!) {
  session_logs(id: $id) {
    text
    next_offset
    at_end
  }
}
`,
    variables: `{ "id": "ses_..." }`,
  },
  {
    title: "cancel",
    query: `# Cancels a session; its devices are free when its processes are gone.
mutation Cancel($id: ID!) {
  cancel_session(input: { id: $id }) {
    __typename
    ... on CancelSessionSuccess { session { state holds_devices } }
    ... on Error { code message }
  }
}
`,
    variables: `{ "id": "ses_..." }`,
  },
  {
    title: "policy and usage",
    query: `# What the allocator decides by, and who has used what.
query PolicyAndUsage {
  policy { version order backfill placement weights { age fair short priority } }
  usage { project user gpu_hours gpu_hours_month share }
}
`,
  },
  {
    title: "session live",
    query: `# One session: how it stands, then every change of it and of its kernels. Add after: NUMBER to go on.
subscription SessionLive($id: ID!) {
  session_updates(id: $id) {
    event_number
    kind
    is_snapshot
    session { state attempt exit_code }
    kernel { rank state exit_code }
  }
}
`,
    variables: `{ "id": "ses_..." }`,
  },
  {
    title: "devices live",
    query: `# All devices: how they stand, then what changes, at most four times a second.
subscription DevicesLive {
  device_updates {
    number
    is_snapshot
    agents_gone
    agents {
      agent_id
      gpu_alloc_map
      devices { name used utilization_pct holders { user share } }
      devices_gone
    }
  }
}
`,
  },
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
    variables: `{ "agent_id": "demo-1" }`,
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
    variables: `{ "id": "ses_..." }`,
  },
  {
    title: "alerts",
    query: `# What is wrong now, when alerts open, and what became of the notices about them.
query Alerts {
  alerts(state: open) { edges { node { severity rule subject message opened_at } } }
  notice_rules { rule is_on threshold unit for_s severity muted_until }
  deliveries(first: 10) { edges { node { receiver kind state tries error message } } }
}
`,
  },
  {
    title: "audit",
    query: `# Who changed what, the newest first; and who held a device at a moment.
query Audit($device_id: String!, $at: DateTime!) {
  audit(filter: { people_only: true }, first: 10) {
    edges { node { number at actor kind entity_id fields { name before after } } }
  }
  held_by(device_id: $device_id, at: $at) { user session_id slot amount since until evidence }
}
`,
    variables: `{ "device_id": "a11c0000-0001-4000-8000-000000000000", "at": "2026-01-01T00:00:00Z" }`,
  },
];
