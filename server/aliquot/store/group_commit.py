"""Group commit: batches that arrive while one group is written form the next group."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aliquot.service.ports import Batch, StoreUnavailable
from aliquot.store.commit import Outcome
from aliquot_schema.events import Event

GROUP_WRITES_MAX: Final = 4000
"""Writes per group. The batch that reaches this is the last of its group, which bounds the time of a transaction."""

_Waiting = tuple[Batch, asyncio.Future[tuple[Event, ...]]]


class GroupCommits:
    """Passes batches to `write` in groups, in the order of arrival, one group at a time."""

    def __init__(self, write: Callable[[Sequence[Batch]], Awaitable[Sequence[Outcome]]]) -> None:
        self._write = write
        self._waiting: deque[_Waiting] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        """Wait until the batch is durable. Cancelling the caller does not withdraw its batch."""
        future: asyncio.Future[tuple[Event, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await future

    async def drain(self) -> None:
        """Wait until every accepted batch was written or rejected."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._take())
        finally:
            self._writing = None

    def _take(self) -> list[_Waiting]:
        group, writes = [], 0
        while self._waiting and writes < GROUP_WRITES_MAX:
            group.append(self._waiting.popleft())
            writes += len(group[-1][0].writes)
        return group

    async def _write_group(self, group: Sequence[_Waiting]) -> None:
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._write([batch for batch, _ in group])
        except StoreUnavailable as error:
            outcomes = [StoreUnavailable(str(error)) for _ in group]
        except Exception as error:  # a bug: every caller gets it, and the next group is tried
            outcomes = [error] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
