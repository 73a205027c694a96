import type { Group } from "../example";

export const LIVE: Group = {
  name: "Live",
  examples: [
    {
      title: "queue live",
      page: "using/graphql-tutorial.html#follow-changes",
      query: `# Every change of a session, live. Add (after: NUMBER) to continue after an event.
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
      title: "all events",
      page: "using/graphql-tutorial.html#follow-changes",
      query: `# All recorded events, live. Narrow them with kinds: ["..."]; change something to see one.
# For operators.
subscription AllEvents {
  events { number at kind entity_id actor fields { name before after } }
}
`,
    },
    {
      title: "log",
      page: "using/jobs.html#output",
      query: `# The output of one rank, followed to its end.
subscription Log($id: ID!) {
  session_logs(id: $id) {
    text
    next_offset
    at_end
  }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "session live",
      page: "using/graphql-tutorial.html#follow-changes",
      query: `# One session: a snapshot, then every change of it and its kernels. Add after: NUMBER to continue.
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
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "devices live",
      page: "using/graphql-tutorial.html#follow-changes",
      query: `# All devices: a snapshot, then changes, at most four times a second.
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
  ],
};
