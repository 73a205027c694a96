"""Session calls: submit, wait, follow output, and run one task per set of parameters, across server restarts."""

import inspect
import re
import shlex
import uuid
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import msgspec

from aliquot.client.errors import ClientFailure, ServerUnreachable, SubscriptionClosed, is_disconnect, is_temporary
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.inputs import CommandInput, CreateSessionInput, NameValueInput, SlotAmountInput
from aliquot.client.generated.mutations import Mutations
from aliquot.client.generated.queries import Queries
from aliquot.client.generated.queries_types import LogChunk, QueueUpdate
from aliquot.client.generated.sessions import Session, SessionLog
from aliquot.client.generated.subscriptions import Subscriptions
from aliquot.client.retries import RetryPolicy, log_retry
from aliquot_schema.errors import NotFound

if TYPE_CHECKING:
    from aliquot.client.futures import MappedCalls, SessionFuture
    from aliquot.client.task_outputs import OnCut, TaskChunk, TaskPosition

T = TypeVar("T")
R = TypeVar("R")
Submits = TypeVar("Submits", bound=Callable[..., Any])


def with_session_options(method: Submits) -> Submits:
    """Show the fields of `CreateSessionInput`, with their types, before `**options` in `help()`."""
    own = inspect.signature(method)
    *given, rest = own.parameters.values()
    known = {one.name for one in given}
    options = [one for one in inspect.signature(CreateSessionInput).parameters.values() if one.name not in known]
    method.__signature__ = own.replace(parameters=[*given, *options, rest])  # type: ignore[attr-defined]
    return method


async def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """The items of all streams in the order of arrival, until all have ended.

    Raises:
        Exception: as raised by one of the streams.
    """
    import asyncio  # the blocking client's short calls need no event loop

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


_PLACE: Final = re.compile(r"(?<!\$)\{(\w+)\}")


def array_command(command: Sequence[str], parameters: Sequence[Mapping[str, object]]) -> str:
    """A script for /bin/sh that runs the command of its own task.

    Args:
        command: program and arguments; `{name}` in them is replaced by a parameter. `${name}` and others are kept.
        parameters: one mapping per task, numbered from 0.
    Raises:
        ValueError: no task, a missing parameter, or a script above the size limit of a command.
        TypeError: the command is one text.
    """
    if isinstance(command, str):
        raise TypeError('map takes program and arguments, like ["python3", "train.py", "--lr", "{lr}"], not one text')
    from aliquot_schema.sessions import COMMAND_BYTES_MAX

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


ENDED: Final = frozenset({SessionState.COMPLETED, SessionState.FAILED, SessionState.CANCELED})
PIECE_BYTES: Final = 256 * 1024
"""Size of one answer with earlier output."""
POLL_S_MIN: Final = 0.05
POLL_S_MAX: Final = 1.0
"""Interval between queries of a session that is waited for; it grows, so that short sessions are noticed early."""


class SessionCalls(Queries, Mutations, Subscriptions):
    """Operations on sessions that are retried for at most one minute: while the server restarts, its database is away,
    or no server leads."""

    @with_session_options
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

    @overload
    async def map(self, call: Sequence[str], parameters: Sequence[Mapping[str, object]], **options: Any) -> Session: ...

    @overload
    async def map(
        self, call: Callable[..., R], parameters: Sequence[Mapping[str, object]], **options: Any
    ) -> "MappedCalls[R]": ...

    async def map(
        self,
        call: Sequence[str] | Callable[..., R],
        parameters: Sequence[Mapping[str, object]],
        *,
        python: str = "python3",
        **options: Any,
    ) -> "Session | MappedCalls[R]":
        """Submit a job array with one task per set of parameters: of a command, or of calls of a Python function.

        Args:
            call: program and arguments, in which `{name}` is replaced by that parameter of the task; or a function,
                which is sent as source text and called with the parameters, see `futures.function_command`.
            parameters: one mapping per task; for a function, its keyword arguments, in JSON.
            python: the program that runs a function on the node.
            options: as for `submit`; `slots` is required, `max_parallel` may be useful.
        Returns:
            The job array of a command; the futures of the calls of a function.
        Raises:
            ValueError: a parameter is missing, the function cannot be sent, or all together exceeds the size limit.
            TypeError: the command is one text, or an argument cannot be written as JSON.
        """
        indices = f"0-{len(parameters) - 1}"
        if not callable(call):
            return await self.submit(array_command(call, parameters), array=indices, **options)
        from aliquot.client.futures import MappedCalls, function_command, result_in

        script = function_command(call, parameters, python=python)
        array = await self.submit(script, array=indices, **{"name": call.__name__, **options})
        return MappedCalls(self, array, count=len(parameters), read=result_in)

    def future(self, id: str) -> "SessionFuture[str]":
        """A session as a future. Its result is the end of the output of rank 0; it fails unless it completes."""
        from aliquot.client.futures import SessionFuture

        return SessionFuture(self, id, read=str)

    async def wait(self, id: str) -> Session:
        """Wait until a session, or all tasks of a job array, have ended, and return it as it ended.

        Raises:
            NotFound: there is no such session.
        """
        async with aclosing(self.states(id)) as states:
            found = await anext(states)
            async for state in states:
                found = state
        return found

    async def states(self, id: str) -> AsyncGenerator[Session, None]:
        """The present state of a session, repeatedly until it has ended; for an array, until all tasks have.

        Raises:
            NotFound: there is no such session.
        """
        pause_s = POLL_S_MIN
        while (found := await self._again(lambda: self.get_session(id))).state not in ENDED:
            yield found
            await self._sleep(pause_s)
            pause_s = min(POLL_S_MAX, pause_s * 1.5)
        yield found

    async def get_session(self, id: str) -> Session:
        """The present state of a session; not retried.

        Raises:
            NotFound: there is no session with this id.
        """
        found = await self.session(id)
        if found is None:
            raise NotFound(f"there is no session {id}", kind="session", id=id)
        return found

    def course(self, id: str) -> AsyncGenerator[Session, None]:
        """Deprecated, use `states`; release 0.3 may remove this name."""
        warnings.warn("use `states` instead of `course`", DeprecationWarning, stacklevel=2)
        return self.states(id)

    def look(self, id: str) -> Awaitable[Session]:
        """Deprecated, use `get_session`; release 0.3 may remove this name."""
        warnings.warn("use `get_session` instead of `look`", DeprecationWarning, stacklevel=2)
        return self.get_session(id)

    async def logs(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
    ) -> AsyncGenerator[LogChunk, None]:
        """The output of one rank until its end, without gaps or repeats."""
        chunks = self._log(id, rank=rank, attempt=attempt, offset=offset, is_retried=is_temporary)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def _log(
        self, id: str, *, rank: int, attempt: int | None, offset: int, is_retried: Callable[[ClientFailure], bool]
    ) -> AsyncGenerator[LogChunk, None]:
        patience, is_logged = RetryPolicy(self._sleep), False
        while True:
            try:
                chunks = self.session_logs(id, rank=rank, attempt=attempt, offset=offset)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        offset = chunk.next_offset
                        patience.renew()
                        yield chunk
                return
            except ClientFailure as error:
                if not is_retried(error):
                    raise
                if not is_logged and not is_disconnect(error):
                    log_retry(error)
                    is_logged = True
                await patience.pause(error)

    def outputs(
        self, id: str, *, offsets: Mapping[int, int], attempt: int, retries_unavailable: bool = False
    ) -> AsyncGenerator[LogChunk, None]:
        """The outputs of several ranks of an attempt until all have ended, each from its own offset; see `logs`.

        Args:
            retries_unavailable: False = an output that cannot be read now, as its agent is lost or no server leads, is
                an error at once.
        """
        retried = is_temporary if retries_unavailable else is_disconnect
        return merged(
            [self._log(id, rank=rank, attempt=attempt, offset=at, is_retried=retried) for rank, at in offsets.items()]
        )

    def task_outputs(
        self, id: str, *, read: "Mapping[int, TaskPosition]", on_cut: "OnCut | None" = None
    ) -> "AsyncGenerator[TaskChunk, None]":
        """The outputs of all tasks of a job array until it has ended; see `task_outputs.task_outputs`."""
        from aliquot.client.task_outputs import task_outputs

        return task_outputs(self, id, read=read, on_cut=on_cut)

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
                piece = await self._again(ask, is_retried=is_disconnect)
                yield piece
                end = piece.length if end is None else end
                offset, has_more = piece.next_offset, piece.has_more and piece.next_offset < end

    async def events(self, *, after: int | None = None) -> AsyncGenerator[QueueUpdate, None]:
        """Every change of a session, without gaps or repeats, across restarts of the server; it does not end.

        Args:
            after: the number of the last known event; by default changes from now on.
        """
        last = after if after is not None else (await self._again(lambda: self.sessions(first=1))).revision
        patience = RetryPolicy(self._sleep)
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

    async def _again(
        self, ask: Callable[[], Awaitable[T]], *, is_retried: Callable[[ClientFailure], bool] = is_temporary
    ) -> T:
        """Repeat an idempotent request until it is answered."""
        patience = RetryPolicy(self._sleep, logs=True)
        while True:
            try:
                return await ask()
            except ClientFailure as error:
                if not is_retried(error):
                    raise
                await patience.pause(error)


def _amount(amount: str | float) -> str:
    """An amount as text, never in scientific notation."""
    return (
        amount if isinstance(amount, str) else f"{amount:f}".rstrip("0").rstrip(".") if amount % 1 else f"{amount:.0f}"
    )
