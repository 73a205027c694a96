import type { Group } from "../example";

export const CHANGES: Group = {
  name: "Change a session",
  examples: [
    {
      title: "priority",
      page: "using/people.html#priorities",
      query: `# Changes the priority of a session that has not ended. Only operators may set more than normal.
mutation Priority($id: ID!) {
  update_session_priority(input: { id: $id, priority: low }) {
    __typename
    ... on UpdateSessionPrioritySuccess { session { id priority queue_position } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<waiting session>" }`,
    },
    {
      title: "priorities",
      page: "using/people.html#priorities",
      query: `# Changes the priority of several sessions, up to 1000, for all of them or none.
mutation Priorities($ids: [ID!]!) {
  update_session_priorities(input: { ids: $ids, priority: low }) {
    __typename
    ... on UpdateSessionPrioritiesSuccess { changed revision }
    ... on Error { code message }
  }
}
`,
      variables: `{ "ids": ["<waiting session>"] }`,
    },
    {
      title: "several sessions",
      page: "using/jobs.html#retries-fallbacks-holds",
      query: `# Holds several sessions, up to 1000: each is held or refused by itself. "action" may also be cancel, release,
# retry, keep or set_priority, the last with a "priority".
mutation HoldSeveral($ids: [ID!]!) {
  change_sessions(input: { ids: $ids, action: hold }) {
    __typename
    ... on ChangeSessionsSuccess { refused results { id session { state } code message } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "ids": ["<waiting session>"] }`,
    },
    {
      title: "hold",
      page: "using/jobs.html#retries-fallbacks-holds",
      query: `# Holds a waiting session, until "release".
mutation Hold($id: ID!) {
  hold_session(input: { id: $id }) {
    __typename
    ... on HoldSessionSuccess { session { id state held_by } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<waiting session>" }`,
    },
    {
      title: "release",
      page: "using/jobs.html#retries-fallbacks-holds",
      query: `# Releases a held session; it keeps its position in the queue.
mutation Release($id: ID!) {
  release_session(input: { id: $id }) {
    __typename
    ... on ReleaseSessionSuccess { session { id state queue_position } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<waiting session>" }`,
    },
    {
      title: "cancel",
      page: "using/jobs.html#how-a-job-ends",
      query: `# Cancels a session; its devices are free when its processes have ended.
mutation Cancel($id: ID!) {
  cancel_session(input: { id: $id }) {
    __typename
    ... on CancelSessionSuccess { session { state holds_devices } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<live session>" }`,
    },
    {
      title: "extend",
      page: "using/jobs.html#how-a-job-ends",
      query: `# Adds an hour to the time limit of a running session, if no other user's session and no booking starts later for it.
mutation Extend($id: ID!) {
  extend_session(input: { id: $id }, seconds: 3600) {
    __typename
    ... on ExtendSessionSuccess { session { id time_limit } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<live session>" }`,
    },
    {
      title: "retry",
      page: "using/jobs.html#retries-fallbacks-holds",
      query: `# Runs an ended session again, as a new attempt, once its processes have ended.
mutation Retry($id: ID!) {
  retry_session(input: { id: $id }) {
    __typename
    ... on RetrySessionSuccess { session { id state attempt } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<ended session>" }`,
    },
    {
      title: "change a request",
      page: "concepts/sessions.html#what-would-help",
      query: `# Changes what a waiting session asks for; its place in the queue stays.
mutation ChangeSession($id: ID!) {
  update_session(input: { id: $id, time_limit: 3600 }) {
    __typename
    ... on UpdateSessionSuccess { session { id state time_limit } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "id": "<waiting session>" }`,
    },
  ],
};
