"""Session calls: submit, wait, follow output, and run one task per set of parameters, across server restarts."""

import asyncio
import re
import shlex
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from aliquot.client.errors import ServerUnreachable, SubscriptionClosed
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput, NameValueInput, SlotAmountInput
from aliquot.client.generated.mutations import Mutations
from aliquot.client.generated.queries import Queries
from aliquot.client.generated.queries_types import LogChunk, QueueUpdate
from aliquot.client.generated.sessions import Session, SessionLog
from aliquot.client.generated.subscriptions import Subscriptions
from aliquot.client.task_outputs import TaskChunk, TaskPosition, task_outputs
from aliquot_schema.errors import NotFound
from aliquot_schema.sessions import COMMAND_BYTES_MAX

T = TypeVar("T")


async def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """The items of all streams in the order of arrival, until all have ended.

    Raises:
        Exception: as raised by one of the streams.
    """
    arrived: asyncio.Queue[T | Exception | None] = asyncio.Queue(maxsize=len(streams))

    async def pump(stream: AsyncGenerator[T, None]) -> None:
        try:
            async with aclosing(stream):
                async for item in stream:
                    await arrived.put(item)
        except Exception as error:
            await arrived.put(error)
        else:
            await arrived.put(None)

    pumps = [asyncio.create_task(pump(stream)) for stream in streams]
    left = len(streams)
    try:
        while left:
            item = await arrived.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


_PLACE: Final = re.compile(r"\{(\w+)\}")


def array_command(command: Sequence[str], parameters: Sequence[Mapping[str, object]]) -> str:
    """A script for /bin/sh that runs the command of its own task.

    Args:
        command: program and arguments; `{name}` in them is replaced by a parameter. Other braces are kept.
        parameters: one mapping per task, numbered from 0.
    Raises:
        ValueError: no task, a missing parameter, or a script above the size limit of a command.
    """
    if not parameters:
        raise ValueError("parameters is empty: a job array needs at least one task")
    lines = [f"{index}) exec {_filled(command, task, index)};;" for index, task in enumerate(parameters)]
    text = "\n".join(['case "$ALIQUOT_ARRAY_INDEX" in', *lines, "esac"])
    if (size := len(text.encode())) > COMMAND_BYTES_MAX:
        raise ValueError(
            f"the commands of {len(parameters)} tasks are {size} bytes, the limit is {COMMAND_BYTES_MAX}; "
            "submit fewer at a time, or let the program read its parameters from a file"
        )
    return text


def _filled(command: Sequence[str], task: Mapping[str, object], index: int) -> str:
    missing = {name for word in command for name in _PLACE.findall(word)} - task.keys()
    if missing:
        raise ValueError(f"task {index} has no parameter {', '.join(sorted(missing))}")
    return shlex.join(_PLACE.sub(lambda found: str(task[found[1]]), word) for word in command)


PATIENCE_S: Final = 60.0
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 2.0


class RetryPolicy:
    """Exponential pauses between attempts, until nothing has succeeded for `patience_s`."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self.renew()

    def renew(self) -> None:
        """Start over after a success."""
        self._until = time.monotonic() + self._patience_s
        self._pause_s = PAUSE_S_MIN

    async def pause(self, error: Exception) -> None:
        """Wait before the next attempt.

        Raises:
            Exception: `error`, when the time is over.
        """
        if time.monotonic() > self._until:
            raise error
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(PAUSE_S_MAX, self._pause_s * 2)


ENDED: Final = frozenset({SessionState.COMPLETED, SessionState.FAILED, SessionState.CANCELED})
PIECE_BYTES: Final = 256 * 1024
"""Size of one answer with earlier output."""
POLL_S_MIN: Final = 0.05
POLL_S_MAX: Final = 1.0
"""Interval between queries of a session that is waited for; it grows, so that short sessions are noticed early."""


class SessionCalls(Queries, Mutations, Subscriptions):
    """Operations on sessions that are retried while the server restarts, for at most one minute."""

    async def submit(
        self,
        command: str | Sequence[str],
        *,
        slots: Mapping[str, str | float],
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Session:
        """Submit a session, exactly once even if an answer is lost and the request is repeated.

        Args:
            command: program and arguments, or a text for /bin/sh.
            slots: what each kernel needs, like `{"cpu": 1, "mem": "2g", "cuda.shares": 0.2}`.
            environment: variables to add.
            options: fields of `CreateSessionInput`, like `name`, `cluster_size` or `time_limit`.
        Raises:
            Refused: the server refuses it; nothing was submitted.
            TypeError: an option is not a field of `CreateSessionInput`.
        """
        wanted = CreateSessionInput(
            command=CommandInput(shell=command) if isinstance(command, str) else CommandInput(argv=tuple(command)),
            slots=[SlotAmountInput(slot=slot, amount=_amount(amount)) for slot, amount in slots.items()],
            environment=[NameValueInput(name=name, value=value) for name, value in (environment or {}).items()],
            **options,
        )
        return await self.submit_once(wanted)

    async def submit_once(self, wanted: CreateSessionInput) -> Session:
        """Submit a complete request, exactly once; see `submit`."""
        if wanted.idempotency_key is None:
            wanted = msgspec.structs.replace(wanted, idempotency_key=uuid.uuid4().hex)
        return (await self._again(lambda: self.create_session(wanted))).session

    async def map(self, command: Sequence[str], parameters: Sequence[Mapping[str, object]], **options: Any) -> Session:
        """Submit a job array with one task per set of parameters.

        Args:
            command: program and arguments; `{name}` in an argument is replaced by that parameter of the task.
            parameters: one mapping per task.
            options: as for `submit`; `slots` is required, `max_parallel` may be useful.
        Raises:
            ValueError: a parameter is missing, or the commands together exceed the size limit.
        """
        return await self.submit(array_command(command, parameters), array=f"0-{len(parameters) - 1}", **options)

    async def wait(self, id: str) -> Session:
        """Wait until a session, or all tasks of a job array, have ended, and return it as it ended.

        Raises:
            NotFound: there is no such session.
        """
        async with aclosing(self.course(id)) as states:
            found = await anext(states)
            async for state in states:
                found = state
        return found

    async def course(self, id: str) -> AsyncGenerator[Session, None]:
        """The present state of a session, repeatedly until it has ended; for an array, until all tasks have.

        Raises:
            NotFound: there is no such session.
        """
        pause_s = POLL_S_MIN
        while (found := await self._again(lambda: self.look(id))).state not in ENDED:
            yield found
            await asyncio.sleep(pause_s)
            pause_s = min(POLL_S_MAX, pause_s * 1.5)
        yield found

    async def look(self, id: str) -> Session:
        """The present state of a session; not retried.

        Raises:
            NotFound: there is no session with this id.
        """
        found = await self.session(id)
        if found is None:
            raise NotFound(f"there is no session {id}", kind="session", id=id)
        return found

    async def logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> AsyncGenerator[LogChunk, None]:
        """The output of one rank until its end, without gaps or repeats."""
        patience = RetryPolicy()
        while True:
            try:
                chunks = self.session_logs(id, rank=rank, attempt=attempt, offset=offset)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        offset = chunk.next_offset
                        patience.renew()
                        yield chunk
                return
            except (ServerUnreachable, SubscriptionClosed) as error:
                await patience.pause(error)

    def outputs(self, id: str, *, offsets: Mapping[int, int], attempt: int) -> AsyncGenerator[LogChunk, None]:
        """The outputs of several ranks of an attempt until all have ended, each from its own offset; see `logs`."""
        return merged([self.logs(id, rank=rank, attempt=attempt, offset=at) for rank, at in offsets.items()])

    def task_outputs(self, id: str, *, read: Mapping[int, TaskPosition]) -> AsyncGenerator[TaskChunk, None]:
        """The outputs of all tasks of a job array until it has ended; see `task_outputs.task_outputs`."""
        return task_outputs(self, id, read=read)

    async def output_so_far(
        self, id: str, *, offsets: Mapping[int, int], attempt: int | None = None
    ) -> AsyncGenerator[SessionLog, None]:
        """The output of several ranks of an attempt so far, rank after rank, each from its own offset.

        Each rank is read up to the end that its output had at the first request.

        Args:
            offsets: by rank; a negative one counts from the end.
            attempt: by default the newest one.
        """
        for rank, offset in offsets.items():
            has_more, end = True, None
            while has_more:
                ask = partial(self.session_log, id, rank=rank, attempt=attempt, offset=offset, bytes_max=PIECE_BYTES)
                piece = await self._again(ask)
                yield piece
                end = piece.length if end is None else end
                offset, has_more = piece.next_offset, piece.has_more and piece.next_offset < end

    async def events(self, *, after: int | None = None) -> AsyncGenerator[QueueUpdate, None]:
        """Every change of a session, without gaps or repeats, across restarts of the server; it does not end.

        Args:
            after: the number of the last known event; by default changes from now on.
        """
        last = after if after is not None else (await self._again(lambda: self.sessions(first=1))).revision
        patience = RetryPolicy()
        while True:
            try:
                async with aclosing(self.queue_updates(after=last)) as updates:
                    async for update in updates:
                        last = update.event_number
                        patience.renew()
                        yield update
                return
            except (ServerUnreachable, SubscriptionClosed) as error:
                await patience.pause(error)

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat an idempotent request until it is answered."""
        patience = RetryPolicy()
        while True:
            try:
                return await ask()
            except ServerUnreachable as error:
                await patience.pause(error)


def _amount(amount: str | float) -> str:
    """An amount as text, never in scientific notation."""
    return (
        amount if isinstance(amount, str) else f"{amount:f}".rstrip("0").rstrip(".") if amount % 1 else f"{amount:.0f}"
    )
