import type { Group } from "../example";

export const SESSIONS: Group = {
  name: "Sessions",
  examples: [
    {
      title: "templates of a project",
      page: "using/dashboard.html#submit",
      query: `# Filled-in submit forms that your projects share.
query SessionTemplates {
  session_templates { project name saved_by saved_at }
}
`,
    },
    {
      title: "when would it start",
      page: "concepts/forecasts.html",
      query: `# When sessions would start if they were submitted, each of them alone.
query PreviewForecasts {
  preview_forecasts(inputs: [{ command: { shell: "true" }, slots: [{ slot: "cpu", amount: "1" }] }]) {
    __typename
    ... on PreviewForecast { forecast { missing now { starts_now within_hour unknown } } }
    ... on Error { code message }
  }
}
`,
    },
    {
      title: "submit",
      page: "using/jobs.html#submit-and-follow",
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
      page: "using/jobs.html#batches-and-dependencies",
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
      title: "why it waits",
      page: "concepts/sessions.html#why-a-session-waits",
      query: `# Why a session waits, who is in its way, and which changes would start it.
query Why($id: ID!) {
  session_why(id: $id) {
    waits { reason message }
    position
    in_the_way { session_id owner until }
    remedies { summary starts_now starts_at command }
  }
}
`,
      variables: `{ "id": "<waiting session>" }`,
    },
    {
      title: "what if",
      page: "concepts/scheduling.html#what-a-change-would-mean",
      query: `# What one more session of four GPUs would mean for all that wait. Changes nothing.
query WhatIf {
  what_if(
    input: { session: { command: { argv: ["true"] }, slots: [{ slot: "cuda.device", amount: "4" }] } }
  ) {
    __typename
    ... on WhatIf { session { starts_now queue_position } session_start later_count note }
    ... on Error { code message }
  }
}
`,
    },
    {
      title: "forecast accuracy",
      page: "concepts/forecasts.html",
      query: `# When the first waiting sessions are expected to start, and how right such forecasts were.
query Forecasts {
  queue(first: 5) {
    edges { node { position session { id forecast { now { start { p10 p50 p90 } unknown } } } } }
  }
  forecast_accuracy { at_once unknown groups { group count inside inside_low inside_high } }
}
`,
    },
    {
      title: "preview",
      page: "concepts/scheduling.html#what-a-change-would-mean",
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
      page: "concepts/scheduling.html",
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
      page: "operating/observing.html",
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
      page: "using/lists.html",
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
      page: "using/lists.html",
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
      page: "concepts/sessions.html",
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
      page: "using/jobs.html#output",
      query: `# The end of a session's output. To continue, set offset to the next_offset of this piece.
query EndOfLog($id: ID!) {
  session_log(id: $id, offset: -4000, bytes_max: 4000) { offset next_offset length left_out has_more at_end text }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "results",
      page: "using/results.html",
      query: `# The files that a session left in RESULT_DIR. Each is downloaded from /sessions/ID/files/PATH.
query Results($id: ID!) {
  session_files(id: $id) { files { path size changed_at sha256 } total_count left_out is_over_quota has_more }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
    {
      title: "metrics",
      page: "using/metrics.html",
      query: `# Numbers that a session printed, in lines like "::metric loss=0.31 step=40".
query Metrics($id: ID!) {
  session_metrics(id: $id) { series { name count last low high steps values } is_partial }
}
`,
      variables: `{ "id": "<newest session>" }`,
    },
  ],
};
