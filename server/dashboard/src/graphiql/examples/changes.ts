import type { Group } from "../example";

export const CHANGES: Group = {
  name: "Change a session",
  examples: [
    {
      title: "priority",
      query: `# How urgent a session is that has not ended. Operators alone may give more than normal.
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
      query: `# Holds a waiting session back, until "release".
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
      query: `# Lets a session go that is held back; it keeps its place.
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
      query: `# Cancels a session; its devices are free when its processes are gone.
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
      query: `# Has a session run again that has ended, as a new attempt, once its processes are gone.
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
