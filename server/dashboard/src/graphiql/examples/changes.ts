import type { Group } from "../example";

export const CHANGES: Group = {
  name: "Change a session",
  examples: [
    {
      title: "priority",
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
      title: "hold",
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
      title: "retry",
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
  ],
};
