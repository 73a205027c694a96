"""Futures: sessions as awaitable results, and Python functions that run as the tasks of a job array.

A function is sent as source text and runs in a new Python on the node, so it imports what it needs inside itself. Its
arguments and its result are JSON. The result is the last line that the task prints, behind a marker.
"""

import ast
import asyncio
import inspect
import json
import shlex
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Generic, Protocol, TypeVar

from aliquot.client.errors import ClientFailure, is_temporary
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.sessions import ArrayTasks, Session, SessionLog
from aliquot.client.retries import RetryPolicy
from aliquot_schema.errors import NotFound
from aliquot_schema.intervals import Intervals
from aliquot_schema.sessions import COMMAND_BYTES_MAX

R = TypeVar("R")
MARKER: Final = "::aliquot-result "
"""Begins the line with the result."""
RESULT_BYTES_MAX: Final = 1 << 20
"""The result of one call, as JSON."""
TAIL_BYTES: Final = RESULT_BYTES_MAX + 4096
PAUSE_S_MIN: Final = 0.05
PAUSE_S_MAX: Final = 1.0
"""Between two requests of a job array whose tasks are waited for; it grows."""
SHOWN_LINES: Final = 5
"""Of the output of a failed task, in its error."""
_RUNNER: Final = """
from __future__ import annotations  # types are not evaluated: their modules may be missing here
import json, sys
{source}
_value = {name}(**json.loads(sys.argv[1]))
_text = json.dumps(_value)
if len(_text) > {limit}:
    sys.exit(f"the result is {{len(_text)}} bytes as JSON, the limit is {limit}: write it to a file instead")
sys.stdout.write("\\n{marker}" + _text + "\\n")
"""


class CallFailed(ClientFailure):
    """A session, or a task, did not complete; the message has its failure and the end of its output."""

    def __init__(self, session: Session | None, *, id: str, output: str) -> None:
        why = "was canceled before it started" if session is None else _failure(session)
        super().__init__(f"session {id} {why}" + (f"\n{output}" if output else ""))
        self.session = session
        """As it ended; None = it never had a session of its own."""


def _failure(session: Session) -> str:
    return f"is {session.state}" if session.failure is None else f"failed: {session.failure.message}"


class SessionReads(Protocol):
    """What is read of sessions; see `sessions.SessionCalls`."""

    def states(self, id: str) -> AsyncGenerator[Session, None]:
        """The state of a session until it has ended."""

    async def get_session(self, id: str) -> Session:
        """The present state of a session."""

    async def wait(self, id: str) -> Session:
        """Wait until it has ended."""

    def output_so_far(self, id: str, *, offsets: Mapping[int, int]) -> AsyncGenerator[SessionLog, None]:
        """The output of several ranks so far."""


class ArrayWatch:
    """The tasks of a job array that have ended. However many futures wait, one request is made at a time for all."""

    def __init__(self, calls: SessionReads, array_id: str) -> None:
        self._calls = calls
        self._array_id = array_id
        self._ended: frozenset[int] = frozenset()
        self._is_over = False
        self._request: asyncio.Task[None] | None = None
        self._waiting = 0
        self._pause_s = 0.0

    def saw(self, array: Session) -> None:
        """Take a state of the array."""
        self._ended = frozenset(ended_tasks(array.tasks))
        self._is_over = array.ended_at is not None

    def forget(self) -> None:
        """Ask again before the next answer: ended tasks may have been retried."""
        self._ended, self._is_over = frozenset(), False

    async def until_ended(self, index: int) -> None:
        """Wait for the end of a task, in whatever way, or of the array. Raises as `SessionReads.states`."""
        self._waiting += 1
        try:
            while not (self._is_over or index in self._ended):
                if self._request is None or self._request.done():
                    self._request = asyncio.create_task(self._ask())
                request = self._request
                await asyncio.wait((request,))
                if not request.cancelled():
                    request.result()
        finally:
            self._waiting -= 1
            if not self._waiting and self._request is not None:
                self._request.cancel()

    async def _ask(self) -> None:
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(PAUSE_S_MAX, max(PAUSE_S_MIN, self._pause_s * 1.5))
        async with aclosing(self._calls.states(self._array_id)) as states:
            self.saw(await anext(states))


class SessionFuture(Generic[R]):
    """The result of a session that may still wait or run. `await future` is `await future.result()`."""

    def __init__(
        self, calls: SessionReads, id: str, *, read: Callable[[str], R], task: tuple[ArrayWatch, int] | None = None
    ) -> None:
        """
        Args:
            read: makes the result from the end of the output of rank 0.
            task: of a task, its array and its index: while it waits there, it has no session of its own.
        """
        self._calls = calls
        self._task = task
        self._read = read
        self.id = id
        """Id of the session, or of the task."""

    async def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        try:
            return (await self._calls.get_session(self.id)).ended_at is not None
        except NotFound:  # a task that waits in its array has no session of its own
            return False

    async def result(self) -> R:
        """Wait for its end and return its result.

        Raises:
            CallFailed: it failed or was canceled, or printed no result.
        """
        session = await self._session_ended()
        output = await self.output()
        if session.state != SessionState.COMPLETED:
            raise CallFailed(session, id=self.id, output=_end(output))
        try:
            return self._read(output)
        except ValueError as error:
            raise CallFailed(session, id=self.id, output=f"{error}\n{_end(output)}") from None

    async def _session_ended(self) -> Session:
        if self._task is None:
            return await self._calls.wait(self.id)
        array, index = self._task
        for _ in range(2):
            await array.until_ended(index)
            try:
                return await self._calls.wait(self.id)
            except NotFound:  # canceled before it started; or what is known is old, and it was retried since
                array.forget()
        raise CallFailed(None, id=self.id, output="")

    async def output(self) -> str:
        """The end of the output of rank 0 so far, at most 1 MiB; retried for a minute while it cannot be read."""
        patience = RetryPolicy(asyncio.sleep)
        while True:
            try:
                async with aclosing(self._calls.output_so_far(self.id, offsets={0: -TAIL_BYTES})) as found:
                    return "".join([piece.text async for piece in found])
            except ClientFailure as error:
                if not is_temporary(error):
                    raise
                await patience.pause(error)

    def __await__(self) -> Generator[Any, None, R]:
        return self.result().__await__()


class MappedCalls(Generic[R]):
    """The calls of a function over parameters. `async for index, result in calls` gives each as it completes."""

    def __init__(self, calls: SessionReads, array: Session, *, count: int, read: Callable[[str], R]) -> None:
        self._calls = calls
        self.session = array
        """The job array."""
        self._watch = ArrayWatch(calls, array.id)
        self.futures: tuple[SessionFuture[R], ...] = tuple(
            SessionFuture(calls, f"{array.id}_{index}", read=read, task=(self._watch, index)) for index in range(count)
        )
        """One per set of parameters, in their order."""

    def __len__(self) -> int:
        return len(self.futures)

    async def __aiter__(self) -> AsyncGenerator[tuple[int, R], None]:
        """(index, result) of each call, in the order in which they end.

        Raises:
            CallFailed: a call failed; those that ended after it are not given.
        """
        seen: set[int] = set()
        async with aclosing(self._calls.states(self.session.id)) as states:
            async for array in states:
                self._watch.saw(array)
                for index in ended_tasks(array.tasks):
                    if index not in seen:
                        seen.add(index)
                        yield index, await self.futures[index].result()

    async def results(self) -> list[R]:
        """Wait for all, and return the results in the order of the parameters. Raises as the iteration."""
        found = {index: result async for index, result in self}
        return [found[index] for index in range(len(self))]


def ended_tasks(tasks: ArrayTasks | None) -> list[int]:
    """Indices of the tasks of an array that have ended, in ascending order."""
    sets = () if tasks is None else (tasks.completed, tasks.failed, tasks.canceled)
    return sorted(index for one in sets if one.count for index in Intervals.parse(one.indices))


def function_command(
    function: Callable[..., object], parameters: Sequence[Mapping[str, object]], *, python: str = "python3"
) -> str:
    """A script for /bin/sh that calls a function with the parameters of its own task.

    Args:
        function: a plain function, defined by `def` in a file; it may use only what it imports or defines itself.
        parameters: keyword arguments, one mapping per task; JSON.
        python: the program that runs it on the node.
    Raises:
        ValueError: no task, a function that cannot be sent, or a script above the size limit of a command.
        TypeError: an argument cannot be written as JSON.
    """
    if not parameters:
        raise ValueError("parameters is empty: a job array needs at least one task")
    code = _RUNNER.format(source=_source(function), name=function.__name__, limit=RESULT_BYTES_MAX, marker=MARKER)
    lines = [f"{index}) set -- {shlex.quote(json.dumps(dict(task)))};;" for index, task in enumerate(parameters)]
    script = ['case "$ALIQUOT_ARRAY_INDEX" in', *lines, "esac", f'exec {shlex.join([python, "-c", code])} "$1"']
    text = "\n".join(script)
    if (size := len(text.encode())) > COMMAND_BYTES_MAX:
        raise ValueError(
            f"the function and its {len(parameters)} sets of parameters are {size} bytes, the limit is "
            f"{COMMAND_BYTES_MAX}; send fewer at a time, or pass the names of files"
        )
    return text


def result_in(output: str) -> Any:
    """The result in the output of a call.

    Raises:
        ValueError: there is none.
    """
    _, marker, text = output.rpartition(f"\n{MARKER}")
    if not marker:
        raise ValueError("it printed no result")
    return json.loads(text.splitlines()[0])


def _source(function: Callable[..., object]) -> str:
    if not inspect.isfunction(function) or function.__name__ == "<lambda>" or function.__closure__:
        raise ValueError("map sends the source of a function: give one made by `def` that uses no variables around it")
    try:
        source = inspect.getsource(function)
    except OSError:
        raise ValueError(f"the source of {function.__name__} cannot be found; define it in a file") from None
    if source[:1].isspace():  # of an inner function; without the indentation its texts would be others
        source = f"if True:\n{source}"
    [definition] = ast.parse(source).body
    if isinstance(definition, ast.If):
        [definition] = definition.body
    if isinstance(definition, ast.AsyncFunctionDef) or getattr(definition, "decorator_list", None):
        raise ValueError(f"{function.__name__} is async or decorated; give a plain function that calls it")
    return source


def _end(output: str) -> str:
    return "\n".join([line for line in output.splitlines() if line and not line.startswith(MARKER)][-SHOWN_LINES:])
