import type { Group } from "../example";

export const PEOPLE: Group = {
  name: "Users and secrets",
  examples: [
    {
      title: "users",
      page: "using/people.html#users-roles-keys",
      query: `# The users and their roles.
# For operators.
query Users {
  users { name role projects unix_name disabled }
}
`,
    },
    {
      title: "keys",
      page: "using/people.html#users-roles-keys",
      query: `# Your keys; for admins, all keys.
query Keys {
  api_keys { id user name scope expires_at is_valid }
}
`,
    },
    {
      title: "a user and a key",
      page: "using/people.html#users-roles-keys",
      query: `# Creates a user with a key that is valid for a minute, changes the projects, and disables the user again.
# A key is shown once. Users are never deleted: each run leaves a disabled one.
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
      page: "using/jobs.html#secrets",
      query: `# The names of your secrets; only sessions receive their values.
query Secrets {
  secrets { name created_at changed_at }
}
`,
    },
    {
      title: "store and delete a secret",
      page: "using/jobs.html#secrets",
      query: `# Stores a secret and deletes it. Its value is a variable, so that it is in no record of queries.
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
