import type { Group } from "../example";

export const NOTICES: Group = {
  name: "Alerts and notices",
  examples: [
    {
      title: "alerts",
      query: `# What is wrong now.
query Alerts {
  alerts(state: open) { edges { node { severity rule subject message opened_at } } }
}
`,
    },
    {
      title: "rules",
      query: `# When alerts open.
# For operators.
query Rules {
  notice_rules { rule is_on threshold unit for_s severity muted_until }
}
`,
    },
    {
      title: "receivers and deliveries",
      query: `# Who is told of what, and what became of the notices.
# For admins.
query Receivers {
  notice_receivers { name kind tells_alerts tells_owners least_severity kinds is_quiet }
  deliveries(first: 10) { edges { node { receiver kind state tries error message } } }
}
`,
    },
    {
      title: "preferences",
      query: `# What you are told of your own sessions.
query Preferences {
  notice_preferences { email notify }
}
`,
    },
    {
      title: "mute a rule",
      query: `# A rule says nothing for a minute; seconds: 0 ends that.
# For operators.
mutation Mute {
  mute_notice_rule(input: { rule: queue_backlog, seconds: 60 }) {
    __typename
    ... on NoticeRuleChangeSuccess { rule { rule is_on muted_until } }
    ... on Error { code message }
  }
}
`,
    },
    {
      title: "change a rule",
      query: `# When a rule opens an alert. Filled in is what stands now: edit it to change it.
# For admins.
mutation ChangeRule($threshold: Int!) {
  set_notice_rule(input: { rule: queue_backlog, threshold: $threshold }) {
    __typename
    ... on NoticeRuleChangeSuccess { rule { rule threshold unit for_s severity } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "threshold": "<backlog threshold>" }`,
    },
    {
      title: "change my preferences",
      query: `# What you are told of. Filled in is what you chose before.
mutation ChangePreferences($notify: [NoticeKind!]) {
  set_notice_preferences(input: { notify: $notify }) {
    __typename
    ... on NoticePreferencesChangeSuccess { preferences { email notify } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "notify": "<what I am told>" }`,
    },
  ],
};
