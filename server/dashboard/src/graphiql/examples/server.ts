import type { Group } from "../example";

export const SERVER: Group = {
  name: "Server",
  examples: [
    {
      title: "start scheduling",
      page: "operating/failures.html",
      query: `# Starts scheduling again after orchestrator_stop; changes nothing if it is on already.
# For operators.
mutation StartScheduling {
  orchestrator_start(note: "from GraphiQL") {
    __typename
    ... on OrchestratorChangeSuccess { orchestrator { state changed_by note } }
    ... on Error { code message }
  }
}
`,
    },
    {
      title: "copy the database",
      page: "operating/backup.html#backup",
      query: `# Copies the database of the server to a file beside it, for a backup.
# For operators.
mutation CopyDatabase {
  copy_database {
    __typename
    ... on CopyDatabaseSuccess { path size_bytes }
    ... on Error { code message }
  }
}
`,
    },
  ],
};
