"""Sharing: equal subscriptions are executed once, each item is sent once, and a slow client delays no other."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

import api_views as views
from aliquot.api.graphql import broadcast as broadcasts
from aliquot.api.graphql.broadcast import (
    Broadcast,
    Frame,
    Frames,
    ReplayMemory,
    SnapshotSource,
    Subscriber,
    start_eagerly,
)
from aliquot.api.graphql.shared_subscriptions import SubscriptionSource
from aliquot.api.graphql.sockets import SLOW_CLIENT, SocketAdapter
from api_server import BEARER, ApiServer, api_server, closing_code, receive, send, sign_in, subscribe

pytestmark = pytest.mark.anyio

UPDATES = "subscription ($after: BigInt) { queue_updates(after: $after) { event_number session { id name } } }"
WAIT_S = 60


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The event numbers executed."""
    found: list[int] = []
    encoded = SubscriptionSource._encoded

    async def counting(self: SubscriptionSource, executor: Any) -> str:
        found.append(executor.root_value.event_number)
        return await encoded(self, executor)

    monkeypatch.setattr(SubscriptionSource, "_encoded", counting)
    return found


async def nothing() -> Frame:
    """For a stream that does not begin with a snapshot."""
    raise AssertionError


async def numbers(socket: Any, count: int) -> list[int]:
    """The next updates' numbers."""
    found = []
    for _ in range(count):
        message = await receive(socket)
        assert message["type"] == "next", message
        found.append(message["payload"]["data"]["queue_updates"]["event_number"])
    return found


async def publish(server: ApiServer, count: int) -> None:
    for _ in range(count):
        await server.cluster.publish(views.session(1), "session.queued")


async def test_identical_subscriptions_share_one_execution(server: ApiServer, executed: list[int]) -> None:
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(server.connect()) for _ in range(20)]
        for socket in sockets:
            await sign_in(socket)
            await subscribe(socket, UPDATES, after=server.cluster.revision)
        await publish(server, 3)
        for socket in sockets:
            assert await numbers(socket, 3) == [42, 43, 44]
    assert executed == [42, 43, 44]


async def test_subscribers_catch_up_from_their_own_position_and_then_share_executions(
    server: ApiServer, executed: list[int]
) -> None:
    await publish(server, 6)  # 42 to 47
    async with AsyncExitStack() as stack:
        sockets = []
        for known in (43, 41, 47, 45):
            socket = await stack.enter_async_context(server.connect())
            await sign_in(socket)
            await subscribe(socket, UPDATES, after=known)
            assert await numbers(socket, 47 - known) == list(range(known + 1, 48))
            sockets.append(socket)
        executed.clear()
        await publish(server, 2)
        for socket in sockets:
            assert await numbers(socket, 2) == [48, 49]
    assert executed == [48, 49]


async def test_a_shared_source_is_closed_with_its_last_subscriber(server: ApiServer) -> None:
    async with server.connect() as first, server.connect() as second:
        for socket in (first, second):
            await sign_in(socket)
            await subscribe(socket, UPDATES, after=41)
        await publish(server, 1)
        await numbers(first, 1)
        await numbers(second, 1)
        await send(first, {"id": "1", "type": "complete"})
        await publish(server, 1)
        assert await numbers(second, 1) == [43]
        assert not server.watcher.closed.is_set()
        await send(second, {"id": "1", "type": "complete"})
        await asyncio.wait_for(server.watcher.closed.wait(), WAIT_S)


async def test_operations_of_one_socket_share_executions_and_keep_their_ids(server: ApiServer) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        for name in ('with "quotes"', "2"):
            payload = {"query": UPDATES, "variables": {"after": 41}}
            await send(socket, {"id": name, "type": "subscribe", "payload": payload})
        await publish(server, 1)
        assert {(await receive(socket))["id"] for _ in range(2)} == {'with "quotes"', "2"}


async def test_a_client_that_does_not_read_does_not_delay_others_and_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = asyncio.Event()
    monkeypatch.setattr(SocketAdapter, "cut", _telling(SocketAdapter.cut, cut))
    huge = replace(views.session(1), name="x" * 500_000)
    async with (
        api_server(slow_client_s=0.5) as server,
        server.connect(max_queue=1, max_size=None) as stalled,
        server.connect(max_size=None) as reader,
    ):
        for socket in (stalled, reader):
            await sign_in(socket)
            await subscribe(socket, UPDATES, after=41)
        # One reads; the other's buffers fill, then the server's, and it is closed.
        for number in range(42, 142):
            await server.cluster.publish(huge, "session.queued")
            assert await numbers(reader, 1) == [number]
        await asyncio.wait_for(cut.wait(), WAIT_S)
        assert await closing_code(stalled) == SLOW_CLIENT
        await publish(server, 1)
        assert await numbers(reader, 1) == [142]


def _telling(function: Callable[..., None], called: asyncio.Event) -> Callable[..., None]:
    def told(*args: Any) -> None:
        function(*args)
        called.set()

    return told


async def test_a_failed_shared_subscription_sends_a_masked_error_to_each_subscriber(server: ApiServer) -> None:
    async with server.connect() as first, server.connect() as second:
        for socket in (first, second):
            await sign_in(socket)
            await subscribe(socket, UPDATES, after=41)
        await publish(server, 1)
        await numbers(first, 1)
        await numbers(second, 1)
        server.cluster.updates.append("the secret path /var/lib/secret")  # type: ignore[arg-type]  # not an update
        await publish(server, 1)
        for socket in (first, second):
            message = await receive(socket)
            [error] = message["payload"]["errors"]
            assert error["extensions"]["code"] == "internal"
            assert "secret" not in str(message)
            assert await receive(socket) == {"id": "1", "type": "complete"}


async def test_event_streams_and_sockets_share_executions(server: ApiServer, executed: list[int]) -> None:
    body = {"query": UPDATES, "variables": {"after": 41}}
    headers = {"accept": "text/event-stream"}
    async with server.connect() as socket, server.http.stream("POST", "/graphql", json=body, headers=headers) as stream:
        await sign_in(socket)
        await subscribe(socket, UPDATES, after=41)
        lines = stream.aiter_lines()
        await publish(server, 2)
        assert await numbers(socket, 2) == [42, 43]
        found = [line async for line in _first(lines, 6)]
        assert [line for line in found if line.startswith("event")] == ["event: next"] * 2
        assert '"event_number":42' in found[1]
    assert executed == [42, 43]


async def test_an_event_stream_that_is_not_read_is_disconnected() -> None:
    huge = replace(views.session(1), name="x" * 500_000)
    body = orjson.dumps({"query": UPDATES, "variables": {"after": 41}})
    async with api_server(slow_client_s=0.3) as server:
        head = [
            "POST /graphql HTTP/1.1",
            f"Host: 127.0.0.1:{server.port}",
            f"Authorization: {BEARER['authorization']}",
            "Accept: text/event-stream",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        await asyncio.wait_for(server.watcher.started.wait(), WAIT_S)
        for _ in range(100):
            await server.cluster.publish(huge, "session.queued")
        await asyncio.wait_for(server.watcher.closed.wait(), WAIT_S)
        writer.transport.abort()
        writer.close()


async def _first(lines: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    async with asyncio.timeout(WAIT_S):
        for _ in range(count):
            yield await anext(lines)


async def test_start_eagerly_completes_work_that_does_not_wait() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    assert start_eagerly(work()) is None
    assert done == [1]


async def test_start_eagerly_continues_waiting_work_in_a_task_that_raises_its_errors() -> None:
    gate = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        await gate.wait()
        raise ValueError("late")

    task = start_eagerly(work())
    assert task is not None
    gate.set()
    with pytest.raises(ValueError, match="late"):
        await task


async def test_start_eagerly_raises_errors_that_occur_before_the_first_wait() -> None:
    async def work() -> None:
        raise ValueError("early")

    with pytest.raises(ValueError, match="early"):
        start_eagerly(work())


async def test_cancelling_an_eagerly_started_task_reaches_its_work() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("here")

    task = start_eagerly(work())
    assert task is not None
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["here"]


class Line:
    """A growing log that can be followed from any position."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._grown = asyncio.Event()

    def append(self, number: int) -> None:
        self.numbers.append(number)
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def frames(self, after: int) -> Frames:
        while True:
            for number in [known for known in self.numbers if known > after]:
                after = number
                yield Frame(number, str(number))
            if not [known for known in self.numbers if known > after]:
                await self._grown.wait()


async def follow(broadcast: Broadcast, subscriber: Subscriber) -> None:
    while True:
        async with aclosing(broadcast.since(subscriber.position)) as frames:
            async for frame in frames:
                await subscriber.deliver(frame)
        broadcast.join(subscriber)
        await subscriber.detached()
        await subscriber.finish()


class Reader:
    """Receives items, sometimes slowly."""

    def __init__(self, start: int, chance: random.Random, *, last: int) -> None:
        self.given: list[int] = []
        self.start = start
        self.has_all = asyncio.Event()
        self._chance = chance
        self._slowness = chance.choice([0, 0, 1, 5])
        self._last = last

    async def take(self, text: str) -> None:
        for _ in range(self._chance.randint(0, self._slowness)):
            await asyncio.sleep(0)
        self.given.append(int(text))
        if self.given[-1] == self._last:
            self.has_all.set()


@pytest.mark.parametrize("seed", range(20))
async def test_every_subscriber_gets_every_frame_once_and_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcasts, "FRAMES_KEPT", 3)
    monkeypatch.setattr(broadcasts, "SUBSCRIBERS_PER_TURN", 2)
    chance, line = random.Random(seed), Line()
    for number in range(1, 40, chance.randint(1, 3)):
        line.append(number)
    broadcast = Broadcast(
        line.frames,
        first=SnapshotSource(nothing),
        start=chance.choice([0, 20, line.numbers[-1]]),
        memory=ReplayMemory(),
    )
    readers: list[Reader] = []
    async with asyncio.TaskGroup() as group:
        following = []
        for number in range(40, 200, 2):
            if chance.random() < 0.3:
                readers.append(Reader(chance.randint(0, line.numbers[-1]), chance, last=198))
                subscriber = Subscriber(position=readers[-1].start, send=readers[-1].take)
                following.append(group.create_task(follow(broadcast, subscriber)))
            line.append(number)
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_S):
            for reader in readers:
                await reader.has_all.wait()
        for task in following:
            task.cancel()
        broadcast.close()
    for reader in readers:
        assert reader.given == [number for number in line.numbers if number > reader.start]


async def test_joining_a_failed_broadcast_does_not_wait_forever() -> None:
    async def ends(_after: int) -> Frames:
        yield Frame(1, "1")
        raise ValueError("it broke")

    async def take(_text: str) -> None:
        pass

    broadcast, subscriber = (
        Broadcast(ends, first=SnapshotSource(nothing), start=0, memory=ReplayMemory()),
        Subscriber(position=0, send=take),
    )
    async with asyncio.timeout(WAIT_S):
        await broadcast.news(1)
        broadcast.join(subscriber)
        await subscriber.detached()
    assert isinstance(broadcast.failure, ValueError)
