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
];
