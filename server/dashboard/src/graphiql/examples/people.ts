import type { Group } from "../example";

export const PEOPLE: Group = {
  name: "People and secrets",
  examples: [
    {
      title: "users",
      query: `# Who may come in, and what each may do.
# For operators.
query Users {
  users { name role projects unix_name disabled }
}
`,
    },
    {
      title: "keys",
      query: `# The keys by which you may come in; to admins, everybody's.
query Keys {
  api_keys { id user name scope expires_at is_valid }
}
`,
    },
    {
      title: "a user and a key",
      query: `# Makes a user with a key that is valid for a minute, changes the projects, and disables the user again.
# A key is shown once. Users are never deleted: each press leaves one behind, disabled.
# For admins.
mutation UserAndKey($name: String!) {
  create_user(input: { name: $name, role: viewer }) {
    __typename
    ... on Error { code message }
  }
  create_api_key(input: { user: $name, name: "from-graphiql", scope: read, expires_in: 60 }) {
    __typename
    ... on CreateApiKeySuccess { api_key { id expires_at } secret }
    ... on Error { code message }
  }
  update_user(input: { name: $name, projects: ["examples"] }) {
    __typename
    ... on Error { code message }
  }
  disable_user(input: { name: $name }) {
    __typename
    ... on UserChangeSuccess { user { name role projects disabled } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "name": "<new name>" }`,
    },
    {
      title: "secrets",
      query: `# The names of your secrets; their values are told to sessions only.
query Secrets {
  secrets { name created_at changed_at }
}
`,
    },
    {
      title: "store and delete a secret",
      query: `# Stores a secret and deletes it. Its value is a variable, so that no record of queries has it.
mutation Secret($name: String!, $value: String!) {
  set_secret(name: $name, value: $value) {
    __typename
    ... on SetSecretSuccess { secret { name changed_at } }
    ... on Error { code message }
  }
  delete_secret(name: $name) {
    __typename
    ... on Error { code message }
  }
}
`,
      variables: `{ "name": "<new name>", "value": "not so secret" }`,
    },
  ],
};
