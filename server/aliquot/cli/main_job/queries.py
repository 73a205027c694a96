"""The GraphQL texts of the main job."""

from typing import Final

IN_ORDER: Final = """
mutation { update_policy(input: {order: "fcfs", backfill: "none"}) {
  __typename ... on Error { code message } ... on PolicyChangeSuccess { revision }
} }
"""
CREATE: Final = """
mutation ($input: CreateSessionInput!) {
  create_session(input: $input) {
    __typename
    ... on CreateSessionSuccess { revision session { id } }
    ... on Error { code message }
  }
}
"""

CANCEL: Final = """
mutation ($id: ID!) {
  cancel_session(input: { id: $id }) {
    __typename
    ... on CancelSessionSuccess { session { id state holds_devices } }
    ... on Error { code message }
  }
}
"""

UPDATES: Final = """
subscription ($after: BigInt) {
  queue_updates(after: $after) { event_number at kind session { id state } }
}
"""

LOGS: Final = """
subscription ($id: ID!, $rank: Int!) {
  session_logs(id: $id, rank: $rank) { text at_end }
}
"""

SESSION: Final = """
query ($id: ID!) {
  session(id: $id) {
    id state exit_code signal holds_devices queued_at scheduled_at started_at ended_at
    failure { code message }
    kernels { rank agent_id state started_at ended_at resource_spec { slot devices { device_id amount } } }
  }
}
"""
