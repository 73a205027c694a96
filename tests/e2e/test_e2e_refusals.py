"""Sessions that can never run are refused with a typed error that names the limit."""

from typing import Any

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

MUTATION = """
mutation ($input: CreateSessionInput!) {
  create_session(input: $input) {
    __typename
    ... on Error { code message }
    ... on ImpossibleRequest { slot requested most: limit }
    ... on NotMultipleOfQuantum { slot amount quantum }
    ... on UnknownSlot { slot known }
    ... on InvalidAmount { slot amount }
    ... on RequestError { field }
    ... on LimitExceeded { limit actual }
    ... on UnknownDependency { session_id }
  }
}
"""

TRUE: dict[str, Any] = {"argv": ["true"]}
UNKNOWN = "ses_00000000-0000-7000-8000-000000000000"


def asking(slot: str, amount: str) -> dict[str, Any]:
    return {"command": TRUE, "slots": [{"slot": slot, "amount": amount}]}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nine devices of eight": (
        asking("cuda.device", "9"),
        {"__typename": "ImpossibleRequest", "slot": "cuda.device", "requested": "9", "most": "8"},
    ),
    "finer than the step": (
        asking("cuda.shares", "0.005"),
        {"__typename": "NotMultipleOfQuantum", "slot": "cuda.shares", "amount": "0.005", "quantum": "0.01"},
    ),
    "unknown slot": (asking("tpu.device", "1"), {"__typename": "UnknownSlot", "slot": "tpu.device"}),
    "negative": (asking("cuda.shares", "-1"), {"__typename": "InvalidAmount", "slot": "cuda.shares", "amount": "-1"}),
    "not a number": (asking("cuda.shares", "NaN"), {"__typename": "InvalidAmount", "amount": "NaN"}),
    "infinite": (asking("cuda.shares", "Infinity"), {"__typename": "InvalidAmount"}),
    "empty command": (
        {"command": {"argv": []}, "slots": [{"slot": "cuda.device", "amount": "1"}]},
        {"__typename": "InvalidRequest", "field": "command"},
    ),
    "a megabyte of command": (
        {"command": {"shell": "#" * 2**20}, "slots": [{"slot": "cuda.device", "amount": "1"}]},
        {"__typename": "LimitExceeded", "field": "command", "limit": 128 * 1024},
    ),
    "unknown dependency": (
        {**asking("cuda.device", "1"), "depends_on": [{"session_id": UNKNOWN}]},
        {"__typename": "UnknownDependency", "session_id": UNKNOWN},
    ),
}


async def test_impossible_requests_are_refused(demo: OwnServer) -> None:
    wrong = {}
    async with demo.client() as client:
        for name, (request, expected) in CASES.items():
            answer = (await client.execute(MUTATION, {"input": request}))["create_session"]
            if {key: answer.get(key) for key in expected} != expected or not answer["message"]:
                wrong[name] = answer
        # The server still works.
        session_id = await submit(client, "true", {"cuda.device": "8"}, cluster_size=2)
        await until_state(client, session_id, "completed")
    assert wrong == {}
