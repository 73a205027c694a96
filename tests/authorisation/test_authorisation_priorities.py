"""Priorities over HTTP: users up to the policy's limit, operators without one."""

import pytest

from authorisation_server import AuthorisationServer

pytestmark = pytest.mark.anyio

CREATE = """mutation ($input: CreateSessionInput!) { create_session(input: $input) {
  __typename ... on Error { code message } ... on CreateSessionSuccess { session { id priority } } } }"""
MOVE = """mutation ($input: UpdateSessionPriorityInput!) { update_session_priority(input: $input) {
  __typename ... on Error { code message } ... on UpdateSessionPrioritySuccess { session { priority } } } }"""
POLICY = """mutation ($input: UpdatePolicyInput!) { update_policy(input: $input) { __typename } }"""


async def submitted(server: AuthorisationServer, user: str, priority: str) -> str:
    """The resulting priority, or the code of the refusal."""
    asked = {"command": {"shell": "true"}, "slots": [{"slot": "cuda.device", "amount": "1"}], "held": True}
    response = await server.query(user, CREATE, {"input": asked | {"priority": priority}})
    answer = response.json()["data"]["create_session"]
    return str(answer.get("code") or answer["session"]["priority"])


@pytest.mark.parametrize(
    ("user", "priority", "found"),
    [
        ("viewer", "low", "forbidden"),
        ("user", "low", "low"),
        ("user", "normal", "normal"),
        ("user", "high", "forbidden"),
        ("user", "critical", "forbidden"),
        ("operator", "critical", "critical"),
        ("admin", "critical", "critical"),
    ],
)
async def test_the_role_limits_the_priority_of_a_submission(
    server: AuthorisationServer, user: str, priority: str, found: str
) -> None:
    assert await submitted(server, user, priority) == found


async def test_the_role_limits_the_priority_of_a_priority_change(server: AuthorisationServer) -> None:
    session_id = await server.session_of("user")
    for user, found in (("user", "forbidden"), ("operator", "high")):
        response = await server.query(user, MOVE, {"input": {"id": session_id, "priority": "high"}})
        answer = response.json()["data"]["update_session_priority"]
        assert (answer.get("code") or answer["session"]["priority"]) == found


async def test_the_policy_sets_the_highest_priority_for_users(server: AuthorisationServer) -> None:
    await server.query("operator", POLICY, {"input": {"user_priority_max": "high"}})
    assert await submitted(server, "user", "high") == "high"
    assert await submitted(server, "user", "critical") == "forbidden"
    await server.query("operator", POLICY, {"input": {"user_priority_max": "normal"}})
