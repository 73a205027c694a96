"""Broadcast: one subscription that is executed once and sent to all of its subscribers.

Subscribers that keep up get each frame as it is produced. A slow one is detached and catches up by itself: from the
buffer of the newest frames, or further back from the event log, and then joins again. A subscriber stores only the
number of its last frame. All buffers of a server share one memory limit, `ReplayMemory`.
"""

import asyncio
import math
import types
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct

CHARACTERS_MAX: Final = 64 * 1024 * 1024

FRAMES_KEPT: Final = 256
"""Frames per replay buffer."""
KEPT_CHARACTERS: Final = 4 * 1024 * 1024
"""Characters per replay buffer; fewer when `ReplayMemory` is exhausted."""
SUBSCRIBERS_PER_TURN: Final = 50
"""Subscribers served before other tasks run."""


@dataclass(slots=True)
class ReplayMemory:
    """Memory limit of all replay buffers of a server. Below zero, broadcasts drop frames, which can be executed
    again."""

    characters_left: int = CHARACTERS_MAX


def start_eagerly(coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run a coroutine until it first has to wait.

    Python 3.12's eager tasks do the same, but create a task even for coroutines that never wait.

    Returns:
        None when it ended; else the task that runs the rest.
    Raises:
        What the coroutine raises before its first wait.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_rest(coroutine, awaited))


async def _rest(coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _drive(coroutine, awaited)


@types.coroutine
def _drive(coroutine: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Forward the awaitables of the coroutine until it ends."""
    while True:
        try:
            woken = yield awaited
        except BaseException as error:  # above all a cancellation, which the coroutine must handle
            step = partial(coroutine.throw, error)
        else:
            step = partial(coroutine.send, woken)
        try:
            awaited = step()
        except StopIteration:
            return


class Frame(NamedTuple):
    """One encoded result, and the number of its event."""

    number: int
    text: str


class Subscriber:
    """A receiver of frames, in order, each once.

    Args:
        position: number of the last event that the client has.
        send: sends the text of a frame; waits while the connection is blocked.
    """

    def __init__(self, *, position: int, send: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self.position = position
        self._send = send
        self._sending: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._detached = asyncio.Event()

    def offer(self, frame: Frame) -> bool:
        """Send a frame without waiting; False when it could not be sent immediately and is still being sent."""
        if frame.number <= self.position:
            return True
        self.position = frame.number
        try:
            self._sending = start_eagerly(self._send(frame.text))
        except Exception as error:
            self._failure = error
        return self._sending is None and self._failure is None

    async def deliver(self, frame: Frame) -> None:
        """Send a frame, however long it takes."""
        self.position = frame.number
        await self._send(frame.text)

    def detach(self) -> None:
        """Stop offering frames."""
        self._detached.set()

    async def detached(self) -> None:
        """Wait until no more frames are offered."""
        await self._detached.wait()
        self._detached.clear()

    async def finish(self) -> None:
        """Wait until offered frames are sent.

        Raises:
            What sending raised.
        """
        sending, self._sending = self._sending, None
        if sending is not None:
            await sending
        if self._failure is not None:
            raise self._failure

    def drop(self) -> None:
        """Discard frames that are not sent yet."""
        if self._sending is not None:
            self._sending.cancel()


Frames = AsyncGenerator[Frame, None]


class SnapshotSource(Struct, frozen=True):
    """How the initial snapshot of a stream is made.

    Args:
        execute: executes the current state.
        lasts_s: for how long a snapshot may be reused; None = always, followed by newer frames.
    """

    execute: Callable[[], Awaitable[Frame]]
    lasts_s: float | None = None


class Broadcast:
    """A stream that is executed once.

    Args:
        frames: executes the stream from above an event number.
        first: for streams that begin with the current state.
        start: the number above which it begins.
        memory: limit of the replay buffers.
    """

    def __init__(
        self, frames: Callable[[int], Frames], *, first: SnapshotSource, start: int, memory: ReplayMemory
    ) -> None:
        self._frames = frames
        self._first = first
        self._memory = memory
        self._snapshot: Frame | None = None
        self._characters_since = 0
        """In the frames since the snapshot."""
        self._snapshot_until = math.inf
        """On the clock of the loop."""
        self._snapshot_lock = asyncio.Lock()
        self._kept: deque[Frame] = deque()
        self._characters = 0
        self._floor = start
        """All frames above this number are buffered."""
        self._position = start
        self._live: dict[Subscriber, None] = {}
        self._news = asyncio.Event()
        self.is_over = False
        self.failure: Exception | None = None
        """Why it is over."""
        self._running = asyncio.create_task(self._run())

    async def snapshot(self) -> Frame:
        """The current state, shared by all who ask until the frames since then exceed its size."""
        async with self._snapshot_lock:
            found = self._snapshot
            if found is None or self._is_outdated(found):
                lasts_s, now = self._first.lasts_s, asyncio.get_running_loop().time()
                self._snapshot_until = math.inf if lasts_s is None else now + lasts_s
                self._keep_snapshot(None)
                found = await self._first.execute()
                self._keep_snapshot(found)
            return found

    async def since(self, position: int) -> Frames:
        """Frames above a number; ends with the newest one."""
        while position < self._position:
            async with aclosing(
                self._replayed(position) if position < self._floor else self._buffered(position)
            ) as frames:
                async for frame in frames:
                    position = frame.number
                    yield frame

    async def news(self, position: int) -> None:
        """Wait until there are frames above a number, or the broadcast is over."""
        while position >= self._position and not self.is_over:
            await self._news.wait()

    def join(self, subscriber: Subscriber) -> None:
        """Offer all frames from now on; the subscriber must have the earlier ones."""
        self._live[subscriber] = None
        if self.is_over:
            subscriber.detach()

    def leave(self, subscriber: Subscriber) -> None:
        """Offer no more frames."""
        self._live.pop(subscriber, None)

    def close(self) -> None:
        """End the broadcast."""
        self._running.cancel()

    def _keep_snapshot(self, snapshot: Frame | None) -> None:
        """Store the snapshot if memory allows, else store none."""
        if self._snapshot is not None:
            self._memory.characters_left += len(self._snapshot.text)
        is_kept = snapshot is not None and not self.is_over and len(snapshot.text) <= self._memory.characters_left
        self._snapshot = snapshot if is_kept else None
        self._characters_since = 0
        if self._snapshot is not None:
            self._memory.characters_left -= len(self._snapshot.text)

    def _is_outdated(self, snapshot: Frame) -> bool:
        """Whether the snapshot is outdated, by size of later frames or by time."""
        if snapshot.number < self._floor or self._characters_since > len(snapshot.text):
            return True
        return asyncio.get_running_loop().time() >= self._snapshot_until

    async def _replayed(self, position: int) -> Frames:
        async with aclosing(self._frames(position)) as frames:
            async for frame in frames:
                yield frame
                if frame.number >= self._floor:
                    return

    async def _buffered(self, position: int) -> Frames:
        for frame in tuple(self._kept):
            if frame.number > position:
                yield frame

    async def _run(self) -> None:
        try:
            async with aclosing(self._frames(self._position)) as frames:
                async for frame in frames:
                    self._keep(frame)
                    await self._offer_all(frame)
        except Exception as error:
            self.failure = error
        finally:
            self.is_over = True
            self._keep_snapshot(None)
            self._memory.characters_left += self._characters
            self._news.set()
            for subscriber in self._live:
                subscriber.detach()

    def _keep(self, frame: Frame) -> None:
        self._kept.append(frame)
        self._characters += len(frame.text)
        self._characters_since += len(frame.text)
        self._memory.characters_left -= len(frame.text)
        if self._snapshot is not None and (self._memory.characters_left < 0 or self._is_outdated(self._snapshot)):
            self._keep_snapshot(None)
        while self._kept and self._is_full:
            oldest = self._kept.popleft()
            self._floor = oldest.number
            self._characters -= len(oldest.text)
            self._memory.characters_left += len(oldest.text)
        self._position = frame.number
        news, self._news = self._news, asyncio.Event()
        news.set()

    @property
    def _is_full(self) -> bool:
        return len(self._kept) > FRAMES_KEPT or self._characters > KEPT_CHARACTERS or self._memory.characters_left < 0

    async def _offer_all(self, frame: Frame) -> None:
        for turn, subscriber in enumerate(tuple(self._live), start=1):
            if subscriber in self._live and not subscriber.offer(frame):
                self.leave(subscriber)
                subscriber.detach()
            if turn % SUBSCRIBERS_PER_TURN == 0:
                await asyncio.sleep(0)
