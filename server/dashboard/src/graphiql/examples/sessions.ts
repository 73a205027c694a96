import type { Group } from "../example";

export const SESSIONS: Group = {
  name: "Sessions",
  examples: [
    {
      title: "submit",
      query: `# Submits a session; __typename shows whether it was accepted.
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
      title: "submit several",
      query: `# Submits several sessions, all or none. The second is held until it is released; see "release".
mutation SubmitSeveral {
  create_sessions(
    input: {
      sessions: [
        { command: { argv: ["true"] }, slots: [{ slot: "cpu", amount: "1" }], name: "first-of-two" }
        { command: { argv: ["true"] }, slots: [{ slot: "cpu", amount: "1" }], name: "second-of-two", held: true }
      ]
    }
  ) {
    __typename
    ... on CreateSessionsSuccess { results { session { id name state } } }
    ... on Error { code message }
  }
}
`,
    },
    {
      title: "preview",
      query: `# Whether and where a session would start if it were submitted now. Changes nothing.
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
      query: `# The queue, in the order of scheduling, with the reason why each session waits.
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
      title: "queue statistics",
      query: `# Recent waiting times, and the numbers of sessions started and ended.
query QueueStatistics {
  queue_statistics {
    total_queued
    oldest_wait
    started
    finished
    average_wait_time
    throughput
    wait_distribution { at_least below count }
  }
}
`,
    },
    {
      title: "sessions",
      query: `# The newest sessions. For the next page, set after to the endCursor of this page.
query Sessions($after: String) {
  sessions(filter: { states: [running, completed, failed] }, first: 10, after: $after) {
    edges { node { id name state exit_code kernels { rank agent_id state } } }
    pageInfo { hasNextPage endCursor }
  }
}
`,
    },
    {
      title: "find sessions",
      query: `# Failed or completed sessions of the last hour, largest first; filters can be combined.
query FindSessions($since: DateTime!) {
  sessions(
    filter: { states: [completed, failed], queued_at: { since: $since } }
    order: gpus_desc
    first: 20
  ) {
    total_count
    edges { node { id name owner state requested_gpus exit_code ended_at } }
  }
}
`,
      variables: `{ "since": "<an hour ago>" }`,
    },
    {
      title: "session",
      query: `# One session: its request, its kernels, and why it waits or failed.
query OneSession($id: ID!) {
  session(id: $id) {
    name
    owner
    state
    slots { slot amount }
    waits { reason message }
    kernels { rank agent_id state exit_code resource_spec { slot devices { device_id amount } } }
    failure { code message }
  }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "end of a log",
      query: `# The end of a session's output. To continue, set offset to the next_offset of this piece.
query EndOfLog($id: ID!) {
  session_log(id: $id, offset: -4000, bytes_max: 4000) { offset next_offset length left_out has_more at_end text }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
  ],
};
