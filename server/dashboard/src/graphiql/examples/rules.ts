import type { Group } from "../example";

export const RULES: Group = {
  name: "Policy and quotas",
  examples: [
    {
      title: "policy and usage",
      page: "concepts/scheduling.html#the-policy",
      query: `# The scheduling policy, and GPU-hours by project and user.
query PolicyAndUsage {
  policy { version order backfill placement weights { age fair short priority } }
  usage { project user gpu_hours gpu_hours_month share }
}
`,
    },
    {
      title: "change the policy",
      page: "concepts/scheduling.html#the-policy",
      query: `# Changes one setting, unless the policy was changed meanwhile. The present value is filled in: edit it to change it.
# For operators.
mutation ChangePolicy($depth: Int!, $version: Int!) {
  update_policy(input: { backfill_depth: $depth, expected_version: $version }) {
    __typename
    ... on PolicyChangeSuccess { policy { version backfill backfill_depth } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "depth": "<backfill depth>", "version": "<policy version>" }`,
    },
    {
      title: "backtests",
      page: "concepts/scheduling.html#try-a-policy-before-you-use-it",
      query: `# What has been tried on recorded sessions. For details see the page Backtest of the dashboard.
# For operators.
query Backtests {
  backtests { id state progress created_by since until labels failure }
}
`,
    },
    {
      title: "use of the quotas",
      page: "using/people.html#quotas",
      query: `# What is held now under each quota, and what was used this month.
query QuotaUse {
  quota_use { scope name held { slot amount } waiting gpu_hours_month }
}
`,
    },
    {
      title: "projects",
      page: "using/people.html#projects",
      query: `# The projects with their users, usage and quotas.
query Projects {
  projects {
    name
    users
    running
    total_queued
    allocated_gpus
    gpu_hours
    gpu_hours_month
    usage { user gpu_hours share }
    quota { max_slots { slot amount } max_queued }
  }
}
`,
    },
    {
      title: "quotas",
      page: "using/people.html#quotas",
      query: `# The limits and guarantees of users and projects.
query Quotas {
  quotas { scope name version max_slots { slot amount } own_slots { slot amount } max_queued gpu_hours_per_month weight budget }
}
`,
    },
    {
      title: "set and remove a quota",
      page: "using/people.html#quotas",
      query: `# Limits a project of a new name to one GPU at a time, and removes the limit again.
# For operators.
mutation Quota($name: String!) {
  set_quota(input: { scope: project, name: $name, max_slots: [{ slot: "cuda.device", amount: "1" }] }) {
    __typename
    ... on QuotaChangeSuccess { quota { name version max_slots { slot amount } } }
    ... on Error { code message }
  }
  remove_quota(input: { scope: project, name: $name }) {
    __typename
    ... on Error { code message }
  }
}
`,
      variables: `{ "name": "<new name>" }`,
    },
  ],
};
