"""Many agents connect within seconds: a few register at a time, some wait, the others get a retry time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import httpx
import pytest
from starlette.types import Message

from aliquot.api import agent_socket
from aliquot.api.agent_socket import RETURNS_PER_S, Admissions, AgentSocket, AgentWire
from aliquot_schema.cluster.agent_protocol import AGENT_HEADER

pytestmark = pytest.mark.anyio

AGENTS = 1000


class Gateway:
    """Registers an agent in a fixed number of loop steps, and then keeps its connection."""

    def __init__(self) -> None:
        self.registering = 0
        self.most = 0
        self.registered: list[str] = []
        self.end = asyncio.Event()

    def refusal(self, agent_id: str, key: str) -> str | None:
        return None if key == "key" else "the key is wrong"

    async def meet(self, wire: AgentWire, *, agent_id: str, key: str, on_joined: Callable[[], None]) -> None:
        self.registering += 1
        self.most = max(self.most, self.registering)
        for _ in range(5):
            await asyncio.sleep(0)
        self.registering -= 1
        self.registered.append(agent_id)
        on_joined()
        await self.end.wait()


async def until_registered(gateway: Gateway, count: int) -> None:
    while len(gateway.registered) < count:  # noqa: ASYNC110  # each turn of the loop counts
        await asyncio.sleep(0)


async def connect(socket: AgentSocket, agent_id: str, told: dict[str, Message], *, key: str = "key") -> None:
    """One connection until its end; the first answer is in `told`."""

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        told.setdefault(agent_id, message)

    scope: dict[str, Any] = {
        "type": "websocket",
        "path": "/agents",
        "headers": [(AGENT_HEADER.encode(), agent_id.encode()), (b"authorization", f"Bearer {key}".encode())],
        "extensions": {"websocket.http.response": {}},
    }
    await socket(scope, receive, send)


async def test_many_agents_register_a_few_at_a_time_and_the_others_are_asked_to_retry() -> None:
    gateway, told = Gateway(), dict[str, Message]()
    socket = AgentSocket(gateway)
    crowd = [asyncio.create_task(connect(socket, f"n{number}", told)) for number in range(AGENTS)]
    expected = agent_socket.REGISTERED_AT_ONCE + round(agent_socket.WAIT_S_MAX * RETURNS_PER_S)
    await until_registered(gateway, expected)
    assert gateway.most == agent_socket.REGISTERED_AT_ONCE
    turned_away = {name: message for name, message in told.items() if message["type"] != "websocket.accept"}
    assert len(turned_away) == AGENTS - expected
    assert {message["status"] for message in turned_away.values()} == {503}
    times = [int(httpx.Headers(message["headers"])["retry-after"]) for message in turned_away.values()]
    assert times == sorted(times)
    assert max(times) <= AGENTS / RETURNS_PER_S + 2
    assert max(Counter(times).values()) <= RETURNS_PER_S + 10  # the clock keeps running
    again = [asyncio.create_task(connect(socket, name, told)) for name in list(turned_away)[:100]]
    await until_registered(gateway, expected + len(again))
    gateway.end.set()
    await asyncio.gather(*crowd, *again)


async def test_the_loop_runs_other_work_between_registrations() -> None:
    gateway, turns = Gateway(), list[int]()
    socket = AgentSocket(gateway)

    async def other_work() -> None:
        while True:
            turns.append(len(gateway.registered))
            await asyncio.sleep(0)

    other = asyncio.create_task(other_work())
    crowd = [asyncio.create_task(connect(socket, f"n{number}", {})) for number in range(100)]
    await until_registered(gateway, len(crowd))
    other.cancel()
    gateway.end.set()
    await asyncio.gather(*crowd)
    steps = [after - before for before, after in pairwise(turns)]
    assert max(steps) <= agent_socket.REGISTERED_AT_ONCE


async def test_a_wrong_agent_key_is_refused_while_many_agents_wait() -> None:
    gateway, told = Gateway(), dict[str, Message]()
    socket = AgentSocket(gateway)
    crowd = [asyncio.create_task(connect(socket, f"n{number}", {})) for number in range(AGENTS)]
    await connect(socket, "stranger", told, key="wrong")
    assert told["stranger"]["status"] == 401
    gateway.end.set()
    await asyncio.gather(*crowd)


async def test_a_registration_place_is_freed_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_socket, "REGISTRATION_S_MAX", 0.01)
    admissions = Admissions(at_once=1)
    assert await admissions.take() is not None
    second = await admissions.take()
    assert second is not None
    second()
    second()
    third = await admissions.take()
    assert third is not None
    third()


async def test_fewer_agents_may_wait_when_registration_is_slow() -> None:
    clock = [0.0]
    admissions = Admissions(at_once=1, now=lambda: clock[0])
    places = asyncio.Queue[Callable[[], None] | None]()

    async def one() -> None:
        places.put_nowait(await admissions.take())

    crowd = [asyncio.create_task(one()) for _ in range(300)]
    for _ in range(250):
        place = await places.get()
        assert place is not None
        clock[0] += 0.1
        place()
    crowd += [asyncio.create_task(one()) for _ in range(100)]
    await asyncio.sleep(0)
    refused = [task for task in crowd if task.done()][250:]
    assert 40 <= len(crowd) - 250 - len(refused) <= 50  # four seconds, at a tenth of a second each
    for task in crowd:
        task.cancel()


def test_agent_retry_times_are_spread_over_one_minute() -> None:
    admissions = Admissions(now=lambda: 0.0)
    times = [admissions.return_s() for _ in range(20_000)]
    counts = Counter(times)
    assert all(abs(counts[second] - RETURNS_PER_S) <= 1 for second in range(1, 59))
    assert times[-1] == agent_socket.RETURN_S_MAX
