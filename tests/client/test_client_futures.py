"""Futures of the tasks of a job array: one request at a time for all that wait."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aliquot.client import CallFailed, GraphQLFault, ServerUnreachable
from aliquot.client.futures import ArrayWatch, SessionFuture, SessionReads
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.sessions import ArrayTasks, Session, TaskSet
from aliquot_schema.errors import NotFound
from cli_tables import filled

pytestmark = pytest.mark.anyio


class Array:
    """An array whose tasks end one after the other, with each request."""

    def __init__(self, count: int, *, fails_at: int = 0) -> None:
        self._count = count
        self._fails_at = fails_at
        self.asked = 0

    async def states(self, id: str) -> AsyncGenerator[Session, None]:
        self.asked += 1
        if self.asked == self._fails_at:
            raise ServerUnreachable("away")
        ended = min(self.asked, self._count)
        tasks = filled(ArrayTasks, completed=TaskSet(indices=f"0-{ended - 1}", count=ended))
        yield filled(
            Session, id=id, tasks=tasks, ended_at=datetime(2027, 1, 1, tzinfo=UTC) if ended == self._count else None
        )

    def watch(self) -> ArrayWatch:
        return ArrayWatch(cast("SessionReads", self), "ses_1")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aliquot.client.futures.PAUSE_S_MIN", 0.0)


async def test_many_waiting_futures_share_their_requests() -> None:
    array = Array(5)
    watch = array.watch()
    await asyncio.gather(*(watch.until_ended(index) for index in range(5) for _ in range(40)))
    assert array.asked == 5
    await watch.until_ended(2)
    assert array.asked == 5


async def test_a_future_that_is_given_up_leaves_the_others_waiting() -> None:
    array = Array(3)
    watch = array.watch()
    waits: list[asyncio.Task[Any]] = [asyncio.create_task(watch.until_ended(2)) for _ in range(2)]
    await asyncio.sleep(0)
    waits[0].cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    assert (waits[0].cancelled(), waits[1].exception(), array.asked) == (True, None, 3)
    last = asyncio.create_task(Array(9).watch().until_ended(8))
    await asyncio.sleep(0)
    last.cancel()
    await asyncio.gather(last, return_exceptions=True)
    assert last.cancelled()


async def test_a_task_that_was_retried_before_it_ever_ran_is_waited_for_again() -> None:
    array, asked = Array(4), list[str]()

    async def wait(id: str) -> Session:
        asked.append(id)
        if len(asked) == 1:
            raise NotFound("no such task", kind="session", id=id)
        return filled(Session, id=id, state=SessionState.COMPLETED)

    async def output_so_far(id: str, *, offsets: Any) -> AsyncGenerator[Any, None]:
        yield SimpleNamespace(text=f"{id} {len(offsets)}")

    calls = SimpleNamespace(states=array.states, wait=wait, output_so_far=output_so_far)
    watch = ArrayWatch(cast("SessionReads", calls), "ses_1")
    future = SessionFuture(cast("SessionReads", calls), "ses_1_0", read=str, task=(watch, 0))
    assert (await future, asked, array.asked) == ("ses_1_0 1", ["ses_1_0", "ses_1_0"], 2)
    asked.clear()
    watch.forget()
    calls.wait = absent
    with pytest.raises(CallFailed, match="canceled before it started"):
        await future


async def test_the_result_of_a_future_is_read_again_when_another_server_leads() -> None:
    failures = [GraphQLFault([{"message": "no server leads", "extensions": {"code": "unavailable"}}])]

    async def wait(id: str) -> Session:
        return filled(Session, id=id, state=SessionState.COMPLETED)

    async def output_so_far(id: str, *, offsets: Any) -> AsyncGenerator[Any, None]:
        yield SimpleNamespace(text="half")
        if failures:
            raise failures.pop()
        yield SimpleNamespace(text=" and half")

    calls = SimpleNamespace(wait=wait, output_so_far=output_so_far)
    assert await SessionFuture(cast("SessionReads", calls), "ses_1", read=str) == "half and half"


async def absent(id: str) -> Session:
    raise NotFound("no such task", kind="session", id=id)


async def test_every_waiting_future_gets_the_failure_of_a_request() -> None:
    watch = Array(5, fails_at=2).watch()
    found = await asyncio.gather(*(watch.until_ended(4) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [ServerUnreachable] * 3
    await watch.until_ended(4)
