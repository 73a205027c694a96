import type { Group } from "../example";

export const AGENTS: Group = {
  name: "Manage agents",
  examples: [
    {
      title: "drain",
      page: "concepts/placement.html#drain-a-node",
      query: `# Starts no new session on the agent; running sessions stay. "resume" undoes it.
# For operators.
mutation Drain($id: ID!) {
  drain_agent(input: { id: $id, note: "from GraphiQL" }) {
    __typename
    ... on AgentChangeSuccess { agent { id draining drained note } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<first agent>" }`,
    },
    {
      title: "resume",
      page: "concepts/placement.html#drain-a-node",
      query: `# Undoes "drain".
# For operators.
mutation Resume($id: ID!) {
  resume_agent(id: $id) {
    __typename
    ... on AgentChangeSuccess { agent { id draining schedulable } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<first agent>" }`,
    },
    {
      title: "schedulable",
      page: "concepts/sessions.html#agent-states",
      query: `# Makes the agent schedulable; false makes it unschedulable, as "drain" does.
# For operators.
mutation Schedulable($id: ID!) {
  set_agent_schedulable(input: { id: $id, schedulable: true }) {
    __typename
    ... on AgentChangeSuccess { agent { id schedulable } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<first agent>" }`,
    },
    {
      title: "label",
      page: "concepts/placement.html#labels-models-and-pools",
      query: `# Replaces the labels of the agent. Its present labels are filled in: edit them to change them.
# For operators.
mutation Label($id: ID!, $labels: [NameValueInput!]!) {
  label_agent(input: { id: $id, labels: $labels }) {
    __typename
    ... on AgentChangeSuccess { agent { id labels { name value } } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<first agent>", "labels": "<its labels>" }`,
    },
    {
      title: "pool",
      page: "concepts/placement.html#labels-models-and-pools",
      query: `# Moves the agent to a pool; running sessions stay. Its present pool is filled in.
# For operators.
mutation Pool($id: ID!, $pool: String!) {
  assign_agent_pool(id: $id, pool: $pool) {
    __typename
    ... on AgentChangeSuccess { agent { id pool } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<first agent>", "pool": "<its pool>" }`,
    },
    {
      title: "rescan",
      page: "concepts/devices.html",
      query: `# Compares the agent's allocation map with its devices, and repairs differences.
# For operators.
mutation Rescan($agent_id: String!) {
  rescan_gpu_alloc_maps(agent_id: $agent_id) {
    __typename
    ... on RescanSuccess { scanned unreadable differences { kind subject evidence repair } gpu_alloc_map }
    ... on Error { code message }
  }
}
`,
      variables: `{ "agent_id": "<first agent>" }`,
    },
  ],
};
