"""Submitting, waiting and following over a failing connection."""

import time
import weakref
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

import pytest

from aliquot.client import GraphQLFault, Refused, ServerUnreachable, SubscriptionClosed, UnexpectedAnswer
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput
from aliquot.client.generated.previews import PreviewForecast
from aliquot.client.generated.queries import Queries
from aliquot.client.sessions import SessionCalls

pytestmark = pytest.mark.anyio

Step = dict[str, Any] | Exception


class Script(SessionCalls):
    """Answers by script, step by step."""

    _fragments = dict.fromkeys(
        ("QueueUpdate", "LogChunk", "CreateSessionResult", "SessionConnection", "SessionLog"), "id"
    )

    def __init__(self, *steps: Step) -> None:
        self._steps: Iterator[Step] = iter(steps)
        self.asked: list[Mapping[str, Any]] = []

    async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append(variables or {})
        step = next(self._steps)
        if isinstance(step, Exception):
            raise step
        return step

    async def subscribe(
        self, query: str, variables: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        self.asked.append(variables or {})
        for step in self._steps:
            if isinstance(step, Exception):
                raise step
            if not step:
                return
            yield step


def _chunk(text: str, *, offset: int) -> dict[str, Any]:
    places = {"offset": offset, "next_offset": offset + len(text), "at_end": False}
    return {"session_logs": {"session_id": "ses_1", "kernel_id": "ses_1.1.0", "rank": 0, "text": text, **places}}


async def test_log_following_resumes_at_the_last_offset_after_a_disconnect() -> None:
    script = Script(
        _chunk("one", offset=0), SubscriptionClosed(1012, "restart"), ServerUnreachable("away"), _chunk("two", offset=3)
    )
    assert [chunk.text async for chunk in script.logs("ses_1")] == ["one", "two"]
    assert [asked["offset"] for asked in script.asked] == [0, 3, 3]


NO_LEADER = GraphQLFault([{"message": "no server is leading right now", "extensions": {"code": "unavailable"}}])
NO_RESULT = GraphQLFault([{"message": "No result within 30 s.", "extensions": {"code": "timeout"}}])


async def test_log_following_goes_on_when_another_server_leads() -> None:
    script = Script(_chunk("one", offset=0), NO_LEADER, NO_LEADER, _chunk("two", offset=3))
    assert [chunk.text async for chunk in script.logs("ses_1")] == ["one", "two"]
    assert [asked["offset"] for asked in script.asked] == [0, 3, 3]


async def test_an_output_of_a_lost_agent_is_an_error_at_once_unless_it_is_to_be_retried() -> None:
    script = Script(_chunk("one", offset=0), NO_LEADER, _chunk("two", offset=3))
    with pytest.raises(GraphQLFault):
        [chunk async for chunk in script.outputs("ses_1", offsets={0: 0}, attempt=1)]
    script = Script(_chunk("one", offset=0), NO_LEADER, _chunk("two", offset=3))
    outputs = script.outputs("ses_1", offsets={0: 0}, attempt=1, retries_unavailable=True)
    assert [chunk.text async for chunk in outputs] == ["one", "two"]


async def test_a_submission_is_repeated_with_its_key_while_the_database_is_away() -> None:
    refused = {"create_session": {"__typename": "InvalidRequest"}}
    script = Script(NO_LEADER, NO_RESULT, ServerUnreachable("away"), refused)
    with pytest.raises(Refused, match="InvalidRequest"):
        await script.submit("true", slots={"cpu": 1})
    keys = [asked["input"]["idempotency_key"] for asked in script.asked]
    assert len(keys) == 4
    assert len(set(keys)) == 1


async def test_output_goes_on_after_a_long_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that passes without output is no time without a server."""
    now = 0.0

    class Silent(Script):
        async def subscribe(
            self, query: str, variables: Mapping[str, Any] | None = None
        ) -> AsyncGenerator[dict[str, Any], None]:
            nonlocal now
            async for data in super().subscribe(query, variables):
                yield data
                now += 3600

        async def _sleep(self, seconds: float) -> None:
            nonlocal now
            now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    lost, away = SubscriptionClosed(1012, "restart"), ServerUnreachable("away")
    chunks = [_chunk("one", offset=0), lost, away, _chunk("two", offset=3), lost, _chunk("end", offset=6), {}]
    assert [chunk.text async for chunk in Silent(*chunks).logs("ses_1")] == ["one", "two", "end"]
    with pytest.raises(ServerUnreachable):
        [chunk async for chunk in Silent(_chunk("one", offset=0), *[lost, *[away] * 60]).logs("ses_1")]


def _piece(*, offset: int, length: int) -> dict[str, Any]:
    places = {"offset": offset, "next_offset": offset + 10, "length": length, "left_out": 0, "has_more": True}
    known = {"session_id": "ses_1", "kernel_id": "ses_1.1.0", "rank": 0, "attempt": 1}
    return {"session_log": {**known, **places, "text": "x" * 10, "at_end": False}}


async def test_reading_the_output_so_far_ends_although_the_job_keeps_printing() -> None:
    script = Script(*(_piece(offset=10 * n, length=20 + 100 * n) for n in range(5)))
    assert [piece.offset async for piece in script.output_so_far("ses_1", offsets={0: 0})] == [0, 10]


async def test_events_start_at_the_current_revision() -> None:
    empty = {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None}
    page = {"edges": [], "pageInfo": empty, "total_count": 0, "revision": 41}
    script = Script({"sessions": page}, SubscriptionClosed(4008, "slow"), {})
    assert [update async for update in script.events()] == []
    assert [asked["after"] for asked in script.asked[1:]] == [41, 41]


async def test_waiting_for_a_session_keeps_only_the_last_state_in_memory() -> None:
    class Look:
        pass

    class Waiting(Script):
        most_kept = 0

        async def states(self, id: str) -> AsyncGenerator[Any, None]:
            looks = []
            for _ in range(9):
                look = Look()
                looks.append(weakref.ref(look))
                yield look
                self.most_kept = max(self.most_kept, sum(known() is not None for known in looks))

    script = Waiting()
    assert isinstance(await script.wait("ses_1"), Look)
    assert script.most_kept <= 2


async def test_the_former_names_of_methods_work_with_a_warning() -> None:
    class Ended(Script):
        async def get_session(self, id: str) -> Any:
            return id.upper()

        async def states(self, id: str) -> AsyncGenerator[Any, None]:
            yield id.title()

    client = Ended()
    with pytest.warns(DeprecationWarning, match="get_session"):
        assert await client.look("ses_1") == "SES_1"
    with pytest.warns(DeprecationWarning, match="states"):
        assert [state async for state in client.course("ses_1")] == ["Ses_1"]


async def test_a_submission_is_retried_with_the_same_idempotency_key(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(
        ServerUnreachable("no answer"),
        ServerUnreachable("no answer"),
        {"create_session": {"__typename": "ImpossibleRequest", "message": "no", "ImpossibleRequest_limit": "8"}},
    )
    with pytest.raises(Refused) as caught:
        await script.submit(["true"], slots={"cpu": 1, "cuda.shares": 0.25, "mem": "2g"})
    assert caught.value.answer["limit"] == "8"
    first, second, third = (asked["input"] for asked in script.asked)
    assert first == second == third
    assert caplog.messages == ["the server does not answer, trying again for up to 60 s: no answer"]
    assert first["idempotency_key"]
    assert first["slots"] == [
        {"slot": "cpu", "amount": "1"},
        {"slot": "cuda.shares", "amount": "0.25"},
        {"slot": "mem", "amount": "2g"},
    ]


@pytest.mark.parametrize(("amount", "text"), [(0.00001, "0.00001"), (2.0, "2"), (1e12, "1000000000000")])
async def test_slot_amounts_are_sent_without_an_exponent(amount: float, text: str) -> None:
    script = Script({"create_session": {"__typename": "InvalidRequest"}})
    with pytest.raises(Refused):
        await script.submit("true", slots={"cpu": amount})
    assert script.asked[0]["input"]["slots"] == [{"slot": "cpu", "amount": text}]


async def test_unset_fields_are_not_sent() -> None:
    script = Script({"create_session": {"__typename": "InvalidRequest"}})
    wanted = CreateSessionInput(command=CommandInput(shell="true"), slots=[], idempotency_key="k")
    with pytest.raises(Refused):
        await script.submit_once(wanted)
    assert script.asked[0]["input"] == {"command": {"shell": "true"}, "slots": [], "idempotency_key": "k"}


async def test_a_response_of_another_shape_is_unexpected() -> None:
    script = Script({"session_logs": {"text": 3}})
    with pytest.raises(UnexpectedAnswer, match="newer"):
        await anext(script.logs("ses_1"))


async def test_each_of_several_forecasts_is_an_answer_or_a_refusal() -> None:
    request = CreateSessionInput(command=CommandInput(shell="true"), slots=[])

    class Asking(Queries):
        _fragments = {"PreviewForecastResult": "{ __typename }"}  # noqa: RUF012 # as in `Requests`

        async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
            forecast = dict.fromkeys(("now", "at_submission", "came_true", "alike", "alike_inside"))
            forecast = {**forecast, "missing": "there is too little history"}
            told = {"__typename": "PreviewForecast", "forecast": forecast}
            refused = {"__typename": "ImpossibleRequest", "ImpossibleRequest_message": "too large"}
            return {"preview_forecasts": [told, refused]}

        def subscribe(
            self, query: str, variables: Mapping[str, Any] | None = None
        ) -> AsyncGenerator[dict[str, Any], None]:
            raise NotImplementedError

    told, refused = await Asking().preview_forecasts([request, request])
    assert isinstance(told, PreviewForecast)
    assert told.forecast.missing == "there is too little history"
    assert isinstance(refused, Refused)
