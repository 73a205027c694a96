import type { Group } from "../example";

export const HISTORY: Group = {
  name: "History",
  examples: [
    {
      title: "history",
      page: "operating/observing.html#history-without-prometheus",
      query: `# Measurements over time: an agent's devices, the queue, and GPUs held by project.
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
      title: "device timeline",
      page: "operating/audit.html#changes-and-holders",
      query: `# Who held a device in the last hour.
query DeviceTimeline($device_ids: [String!]!, $since: DateTime!) {
  device_timeline(device_ids: $device_ids, since: $since) {
    user
    session_id
    slot
    amount
    since
    until
  }
}
`,
      variables: `{ "device_ids": ["<first device>"], "since": "<an hour ago>" }`,
    },
    {
      title: "session stats",
      page: "operating/observing.html",
      query: `# What a session used of what it held, with one line of advice.
query SessionStats($id: ID!) {
  session_stats(id: $id) { state wait ran gpu_hours advice warning }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "session history",
      page: "operating/observing.html",
      query: `# The readings of a session's devices while it held them.
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
      page: "concepts/sessions.html#session-states",
      query: `# The steps of a session, newest first, with the sessions that preempted it.
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
      page: "concepts/fair-share.html#past-use",
      query: `# GPU-hours by project and user: in total, this month, and decayed as in fair share.
query Usage {
  usage { project user gpu_hours gpu_hours_month gpu_hours_decayed share }
}
`,
    },
    {
      title: "usage of the last hour",
      page: "concepts/fair-share.html#past-use",
      query: `# GPU-hours by user and step, since an hour ago.
query UsageHistory($since: DateTime!) {
  usage_history(by: user, since: $since) { started_at step series { name gpu_hours utilization } warning }
}
`,
      variables: `{ "since": "<an hour ago>" }`,
    },
    {
      title: "audit",
      page: "operating/audit.html#changes-and-holders",
      query: `# Changes, newest first; and the holders of a device at a given time.
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
      title: "device holdings",
      page: "operating/audit.html#changes-and-holders",
      query: `# All holders of a device, newest first; and whether the record is unbroken.
# For operators.
query DeviceHoldings($device_id: String!) {
  device_holdings(device_id: $device_id, first: 10) {
    edges { node { user session_id slot amount since until evidence } }
  }
  record_check { started_at ended_at faults events holdings }
}
`,
      variables: `{ "device_id": "<first device>" }`,
    },
    {
      title: "passes",
      page: "operating/audit.html#replay-of-decisions",
      query: `# The decisions of the scheduler, pass by pass, newest first.
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
