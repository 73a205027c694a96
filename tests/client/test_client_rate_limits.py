"""Requests that a rate limit refuses: sent again when the server allows it."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from aliquot.client import GraphQLFault, Refused
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput
from aliquot.client.sessions import SessionCalls

pytestmark = pytest.mark.anyio

WANTED = CreateSessionInput(command=CommandInput(argv=["true"]), slots=[], idempotency_key="once")


class Limited(SessionCalls):
    """Gives these answers in turn, and does not wait."""

    _fragments = dict.fromkeys(("LogChunk", "CreateSessionResult"), "id")

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.waits: list[float] = []

    async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def subscribe(
        self, query: str, variables: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        yield await self.execute(query, variables)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def limited(seconds: float) -> GraphQLFault:
    """The refusal of a whole operation."""
    return GraphQLFault([{"message": "too much", "extensions": {"code": "rate_limited", "retry_after": seconds}}])


def refused(seconds: float) -> dict[str, Any]:
    """The refusal of a submission."""
    facts = {"code": "rate_limited", "message": "too many", "retry_after": seconds}
    return {"create_session": {"__typename": "RateLimited", **facts}}


async def test_a_query_waits_as_long_as_the_server_says(caplog: pytest.LogCaptureFixture) -> None:
    client = Limited(limited(7.5), limited(30.0), {"revision": 5})
    assert await client._read("query { revision }", {}, int) == 5
    assert client.waits == [7.5, 30.0]
    assert caplog.messages == ["the server's rate limit is reached, waiting for 8 s: too much"]


async def test_a_submission_waits_and_another_refusal_is_raised() -> None:
    unknown = {"create_session": {"__typename": "UnknownSlot", "code": "unknown_slot", "message": "no"}}
    client = Limited(refused(0.01), refused(5.0), unknown)
    with pytest.raises(Refused, match="UnknownSlot: no"):
        await client.submit_once(WANTED)
    assert client.waits == [0.1, 5.0]


@pytest.mark.parametrize("answer", [limited(121.0), refused(121.0)])
async def test_a_wait_of_more_than_two_minutes_is_an_error_at_once(answer: dict[str, Any] | GraphQLFault) -> None:
    client = Limited(answer)
    with pytest.raises((GraphQLFault, Refused)) as failure:
        await client.submit_once(WANTED)
    assert isinstance(failure.value, GraphQLFault | Refused)
    assert failure.value.retry_after == 121.0
    assert client.waits == []


async def test_a_subscription_waits_before_its_first_item() -> None:
    chunk = {"session_id": "ses_1", "kernel_id": "ses_1.1.0", "rank": 0, "text": "out", "offset": 0, "next_offset": 3}
    client = Limited(limited(5.0), {"session_logs": {**chunk, "at_end": True}})
    assert [piece.text async for piece in client.session_logs("ses_1")] == ["out"]
    assert client.waits == [5.0]
