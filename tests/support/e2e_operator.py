"""GraphQL of operators' actions, and of the state that scheduling tests read."""

from typing import Any, Final

from aliquot.client import Client

SESSION: Final = """
query ($id: ID!) {
  session(id: $id) {
    id version name state attempt retry_count exit_code queue_position holds_devices owner project pool
    waits { reason message until blocked_by agents available }
    failure { code message }
    fallback_level preemptions priority held_by started_at ended_at reserve_until expected_start
    preemption { cause by_session by_user at until lost_gpu_seconds }
    work { kept saved_at agent_id resumed_from note lost_gpu_seconds credited_gpu_seconds }
    order_estimate { seconds explanation }
    kernels { id agent_id state resource_spec { slot devices { device_id amount } } }
    array_id array_index
    tasks { waiting { indices } active { indices } completed { indices } failed { indices } canceled { indices } }
  }
}
"""
QUEUE_UPDATES: Final = """
subscription ($after: BigInt) {
  queue_updates(after: $after) {
    event_number at kind session { id state attempt array_id fallback_level preemption { cause lost_gpu_seconds } }
  }
}
"""
SESSIONS_IN_STATES: Final = """
query ($states: [SessionState!]!) {
  sessions(first: 100, filter: { states: $states }) { edges { node { id } } }
}
"""
POLICY: Final = """
query { policy {
  order backfill user_priority_max pools { name default_limit }
  preemption { preempt run_min preemptions_max grace } retries { tries_min wait_first wait_max jitter_pct }
} }
"""
AGENTS: Final = "{ agents { edges { node { id pool schedulable draining drained note labels { name value } } } } }"


def _changing(field: str, *, of: str, success: str) -> str:
    return f"""
mutation ($input: {of}!) {{
  {field}(input: $input) {{ __typename ... on {success} {{ revision session {{ id state }} }}
    ... on Error {{ code message }} }}
}}
"""


CHANGE_SESSION: Final = {
    "cancel": _changing("cancel_session", of="CancelSessionInput", success="CancelSessionSuccess"),
    "hold": _changing("hold_session", of="ChangeSessionInput", success="HoldSessionSuccess"),
    "release": _changing("release_session", of="ChangeSessionInput", success="ReleaseSessionSuccess"),
    "retry": _changing("retry_session", of="ChangeSessionInput", success="RetrySessionSuccess"),
    "priority": _changing(
        "update_session_priority", of="UpdateSessionPriorityInput", success="UpdateSessionPrioritySuccess"
    ),
}
CREATE_ALL: Final = """
mutation ($input: CreateSessionsInput!) { create_sessions(input: $input) {
  __typename ... on CreateSessionsSuccess { results { session { id name } } } ... on Error { code message }
} }
"""
UPDATE_POLICY: Final = """
mutation ($input: UpdatePolicyInput!) { update_policy(input: $input) {
  __typename ... on PolicyChangeSuccess { revision policy { version order } } ... on Error { code message }
} }
"""
SET_QUOTA: Final = """
mutation ($input: SetQuotaInput!) { set_quota(input: $input) {
  __typename ... on QuotaChangeSuccess { revision quota { version } } ... on Error { code message }
} }
"""
REMOVE_QUOTA: Final = """
mutation ($input: RemoveQuotaInput!) { remove_quota(input: $input) { __typename ... on Error { code message } } }
"""
_AGENT: Final = "__typename ... on AgentChangeSuccess { agent { id draining drained } } ... on Error { code message }"
AGENT_ACTS: Final = {
    "drain": f"mutation ($input: DrainAgentInput!) {{ drain_agent(input: $input) {{ {_AGENT} }} }}",
    "resume": f"mutation ($id: ID!) {{ resume_agent(id: $id) {{ {_AGENT} }} }}",
    "schedulable": f"""
mutation ($input: SetAgentSchedulableInput!) {{ set_agent_schedulable(input: $input) {{ {_AGENT} }} }}
""",
    "label": f"mutation ($input: LabelAgentInput!) {{ label_agent(input: $input) {{ {_AGENT} }} }}",
    "pool": f"mutation ($id: ID!, $pool: String!) {{ assign_agent_pool(id: $id, pool: $pool) {{ {_AGENT} }} }}",
    "release_lost": f"mutation ($id: ID!) {{ release_lost_agent(id: $id) {{ {_AGENT} }} }}",
}


class Operator:
    """Operators' actions at one server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def policy(self, **changes: Any) -> dict[str, Any]:
        """Change policy settings."""
        return await self._client.change(UPDATE_POLICY, {"input": changes})

    async def current_policy(self) -> dict[str, Any]:
        """The policy settings that tests change, as input for a change."""
        return dict((await self._client.execute(POLICY))["policy"])

    async def quota(self, scope: str, name: str, **limits: Any) -> None:
        """Set a quota; slots are given as `{slot: amount}`."""
        given = {"scope": scope, "name": name, **limits}
        for field in ("max_slots", "own_slots"):
            given[field] = [{"slot": slot, "amount": amount} for slot, amount in limits.get(field, {}).items()]
        await self._client.change(SET_QUOTA, {"input": given})

    async def agents(self) -> dict[str, dict[str, Any]]:
        """Agents by the name of their accelerator file."""
        edges = (await self._client.execute(AGENTS))["agents"]["edges"]
        return {str(edge["node"]["id"]).rpartition("-")[2]: edge["node"] for edge in edges}

    async def change_agent(self, what: str, agent_id: str, **more: Any) -> dict[str, Any]:
        """Run an action on an agent."""
        query = AGENT_ACTS[what]
        variables = {"id": agent_id, **more}
        return await self._client.change(query, {"input": variables} if "$input" in query else variables)

    async def reset(self, policy: dict[str, Any]) -> None:
        """Reset the policy, quotas and agents."""
        for agent in (await self.agents()).values():
            await self.change_agent("resume", agent["id"])
            await self.change_agent("schedulable", agent["id"], schedulable=True)
            await self.change_agent("label", agent["id"], labels=[])
            await self.change_agent("pool", agent["id"], pool="default")
        await self.policy(**policy)
        for quota in (await self._client.execute("{ quotas { scope name } }"))["quotas"]:
            await self._client.execute(REMOVE_QUOTA, {"input": quota})
