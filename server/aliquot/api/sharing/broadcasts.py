"""Broadcasts: one stream of frames, from now on, for all who follow it.

Whoever keeps up is given each frame as it comes. Whoever does not is left behind and goes on by itself, first through
the newest frames, which are kept, and further back through the log; with the last of them it is with the others again.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from aliquot.api.sharing.room import Room
from aliquot.api.sharing.subscribers import Frame, Subscriber

KEPT: Final = 256
"""Frames."""
KEPT_CHARACTERS: Final = 4 * 1024 * 1024
"""In the frames of one broadcast; fewer where there is no room for them."""
TURN: Final = 50
"""After so many subscribers everything else has its turn."""

Frames = AsyncGenerator[Frame, None]


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a stream begins.

    Args:
        execute: executes how everything stands.
        lasts_s: how long that may be told; None = ever, with what came since.
    """

    execute: Callable[[], Awaitable[Frame]]
    lasts_s: float | None = None


class Broadcast:
    """A stream that is executed once.

    Args:
        frames: executes the stream from above an event number on.
        first: for streams that begin with how everything stands.
        start: the number above which it begins.
        room: for what is kept.
    """

    def __init__(self, frames: Callable[[int], Frames], *, first: Beginning, start: int, room: Room) -> None:
        self._frames = frames
        self._first = first
        self._room = room
        self._snapshot: Frame | None = None
        self._characters_since = 0
        """In the frames since the snapshot."""
        self._snapshot_until = math.inf
        """On the clock of the loop."""
        self._beginning = asyncio.Lock()
        self._kept: deque[Frame] = deque()
        self._characters = 0
        self._floor = start
        """Everything above this number is kept."""
        self._position = start
        self._live: dict[Subscriber, None] = {}
        self._news = asyncio.Event()
        self.is_over = False
        self.failure: Exception | None = None
        """Why it is over."""
        self._running = asyncio.create_task(self._run())

    async def snapshot(self) -> Frame:
        """How everything stands, or stood: as long as less came since than it holds, one does for all."""
        async with self._beginning:
            found = self._snapshot
            if found is None or self._is_past(found):
                lasts_s, now = self._first.lasts_s, asyncio.get_running_loop().time()
                self._snapshot_until = math.inf if lasts_s is None else now + lasts_s
                self._keep_snapshot(None)
                found = await self._first.execute()
                self._keep_snapshot(found)
            return found

    async def since(self, position: int) -> Frames:
        """The frames above a number; ends with the newest one."""
        while position < self._position:
            async with aclosing(self._older(position) if position < self._floor else self._newer(position)) as frames:
                async for frame in frames:
                    position = frame.number
                    yield frame

    async def news(self, position: int) -> None:
        """Wait until there are frames above a number, or the broadcast is over."""
        while position >= self._position and not self.is_over:
            await self._news.wait()

    def join(self, subscriber: Subscriber) -> None:
        """Give it all frames from now on; it has to have those until now."""
        self._live[subscriber] = None
        if self.is_over:
            subscriber.leave_behind()

    def leave(self, subscriber: Subscriber) -> None:
        """Give it no more."""
        self._live.pop(subscriber, None)

    def close(self) -> None:
        """End it."""
        self._running.cancel()

    def _keep_snapshot(self, snapshot: Frame | None) -> None:
        """Keep it, if there is room for it, or keep none."""
        if self._snapshot is not None:
            self._room.characters_left += len(self._snapshot.text)
        is_kept = snapshot is not None and not self.is_over and len(snapshot.text) <= self._room.characters_left
        self._snapshot = snapshot if is_kept else None
        self._characters_since = 0
        if self._snapshot is not None:
            self._room.characters_left -= len(self._snapshot.text)

    def _is_past(self, snapshot: Frame) -> bool:
        """Whether too much came since, or too much time went by."""
        if snapshot.number < self._floor or self._characters_since > len(snapshot.text):
            return True
        return asyncio.get_running_loop().time() >= self._snapshot_until

    async def _older(self, position: int) -> Frames:
        async with aclosing(self._frames(position)) as frames:
            async for frame in frames:
                yield frame
                if frame.number >= self._floor:
                    return

    async def _newer(self, position: int) -> Frames:
        for frame in tuple(self._kept):
            if frame.number > position:
                yield frame

    async def _run(self) -> None:
        try:
            async with aclosing(self._frames(self._position)) as frames:
                async for frame in frames:
                    self._keep(frame)
                    await self._give_out(frame)
        except Exception as error:
            self.failure = error
        finally:
            self.is_over = True
            self._keep_snapshot(None)
            self._room.characters_left += self._characters
            self._news.set()
            for subscriber in self._live:
                subscriber.leave_behind()

    def _keep(self, frame: Frame) -> None:
        self._kept.append(frame)
        self._characters += len(frame.text)
        self._characters_since += len(frame.text)
        self._room.characters_left -= len(frame.text)
        if self._snapshot is not None and (self._room.characters_left < 0 or self._is_past(self._snapshot)):
            self._keep_snapshot(None)
        while self._kept and self._is_full:
            oldest = self._kept.popleft()
            self._floor = oldest.number
            self._characters -= len(oldest.text)
            self._room.characters_left += len(oldest.text)
        self._position = frame.number
        news, self._news = self._news, asyncio.Event()
        news.set()

    @property
    def _is_full(self) -> bool:
        return len(self._kept) > KEPT or self._characters > KEPT_CHARACTERS or self._room.characters_left < 0

    async def _give_out(self, frame: Frame) -> None:
        for turn, subscriber in enumerate(tuple(self._live), start=1):
            if subscriber in self._live and not subscriber.offer(frame):
                self.leave(subscriber)
                subscriber.leave_behind()
            if turn % TURN == 0:
                await asyncio.sleep(0)
