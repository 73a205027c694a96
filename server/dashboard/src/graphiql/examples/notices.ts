import type { Group } from "../example";

export const NOTICES: Group = {
  name: "Alerts and notifications",
  examples: [
    {
      title: "alerts",
      page: "operating/observing.html#alerts-and-notices",
      query: `# The open alerts.
query Alerts {
  alerts(state: open) { edges { node { severity rule subject message opened_at } } }
}
`,
    },
    {
      title: "rules",
      page: "operating/observing.html#alerts-and-notices",
      query: `# The alert rules.
# For operators.
query Rules {
  notice_rules { rule is_on threshold unit for_s severity muted_until }
}
`,
    },
    {
      title: "receivers and deliveries",
      page: "operating/observing.html#alerts-and-notices",
      query: `# The receivers of notifications, and the outcome of the newest ones.
# For admins.
query Receivers {
  notice_receivers { name kind tells_alerts tells_owners least_severity kinds is_quiet }
  deliveries(first: 10) { edges { node { receiver kind state tries error message } } }
}
`,
    },
    {
      title: "preferences",
      page: "operating/observing.html#alerts-and-notices",
      query: `# The notifications that you receive about your own sessions.
query Preferences {
  notice_preferences { email notify }
}
`,
    },
    {
      title: "mute a rule",
      page: "operating/observing.html#alerts-and-notices",
      query: `# Mutes a rule for a minute; seconds: 0 unmutes it.
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
      page: "operating/observing.html#alerts-and-notices",
      query: `# Changes an alert rule. The present threshold is filled in: edit it to change it.
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
      page: "operating/observing.html#alerts-and-notices",
      query: `# Changes your notifications. Your present choice is filled in.
mutation ChangePreferences($notify: [NoticeKind!]) {
  set_notice_preferences(input: { notify: $notify }) {
    __typename
    ... on NoticePreferencesChangeSuccess { preferences { email notify } }
    ... on Error { code message }
  }
}
`,
      variables: `{ "notify": "<my notifications>" }`,
    },
  ],
};
