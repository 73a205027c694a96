"""Priorities over HTTP: users up to the policy's limit, operators without one."""

import pytest

from authorisation_scene import Scene

pytestmark = pytest.mark.anyio

CREATE = """mutation ($input: CreateSessionInput!) { create_session(input: $input) {
  __typename ... on Error { code message } ... on CreateSessionSuccess { session { id priority } } } }"""
MOVE = """mutation ($input: UpdateSessionPriorityInput!) { update_session_priority(input: $input) {
  __typename ... on Error { code message } ... on UpdateSessionPrioritySuccess { session { priority } } } }"""
POLICY = """mutation ($input: UpdatePolicyInput!) { update_policy(input: $input) { __typename } }"""


async def submitted(people: Scene, user: str, priority: str) -> str:
    """The resulting priority, or the code of the refusal."""
    asked = {"command": {"shell": "true"}, "slots": [{"slot": "cuda.device", "amount": "1"}], "held": True}
    response = await people.ask(user, CREATE, {"input": asked | {"priority": priority}})
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
    people: Scene, user: str, priority: str, found: str
) -> None:
    assert await submitted(people, user, priority) == found


async def test_the_role_limits_the_priority_of_a_priority_change(people: Scene) -> None:
    session_id = await people.session_of("user")
    for user, found in (("user", "forbidden"), ("operator", "high")):
        response = await people.ask(user, MOVE, {"input": {"id": session_id, "priority": "high"}})
        answer = response.json()["data"]["update_session_priority"]
        assert (answer.get("code") or answer["session"]["priority"]) == found


async def test_the_policy_sets_the_highest_priority_for_users(people: Scene) -> None:
    await people.ask("operator", POLICY, {"input": {"user_priority_max": "high"}})
    assert await submitted(people, "user", "high") == "high"
    assert await submitted(people, "user", "critical") == "forbidden"
    await people.ask("operator", POLICY, {"input": {"user_priority_max": "normal"}})
