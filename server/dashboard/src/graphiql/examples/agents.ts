import type { Group } from "../example";

export const AGENTS: Group = {
  name: "Steer agents",
  examples: [
    {
      title: "drain",
      query: `# No new session starts on the agent; what runs stays. "resume" undoes it.
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
      query: `# Lets sessions be placed on the agent; false takes it out, as "drain" does.
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
      query: `# Gives the agent labels, in place of its own. Filled in are those it has: edit them to change them.
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
      query: `# Moves the agent to a pool; what runs there stays. Filled in is the pool it is in.
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
      query: `# Compares the agent's map with what its devices say. Changes nothing that agrees.
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
