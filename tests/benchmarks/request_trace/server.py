"""The server, traced: `python server.py COMMANDS ANSWERS TRACE OPTION...` runs `aliquot OPTION...` and logs its calls.

COMMANDS and ANSWERS are descriptors of pipes; each line on COMMANDS is answered by one line of JSON. `idle` begins to
watch which tasks run while there is no request; those of every watch are loops, and their calls count for no request.
`begin` resets the trace and arms it; the next bytes that reach a socket start it; `report` stops it. TRACE is the file
that a traced spawner writes, see `spawner`.
"""

import asyncio
import contextvars
import functools
import json
import os
import runpy
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[3]
SOURCES: Final = (f"{ROOT}/server/aliquot/", f"{ROOT}/schema/aliquot_schema/")
GENERATED: Final = "/generated/"
FIELD: Final = "create_session"
FUNCTION: Final = 0x03
"""CO_OPTIMIZED and CO_NEWLOCALS: absent from modules and class bodies."""
RUN: Final = asyncio.Runner.run.__code__

_request: contextvars.ContextVar[int] = contextvars.ContextVar("request", default=0)
"""The number of the request that some work belongs to: tasks and threads inherit it from their creator."""


class Trace:
    """Calls made for one request: the first of each module, in nanoseconds of the monotonic clock."""

    def __init__(self) -> None:
        self.resolver: CodeType | None = None
        self.spawner_pipe = -1
        self._number = 0
        self._is_armed = False
        self._is_running = False
        self._is_idle = False
        self._watches: list[set[CodeType]] = []
        """For each watch of the idle server, the first functions of its tasks."""
        self._loops: set[CodeType] = set()
        """What ran in every watch; left-over work of an earlier session runs in the first alone."""
        self._modules: dict[str, int] = {}
        self._way: dict[str, int] = {}
        """From the resolver to the answer, for this request alone."""
        self._times: dict[str, int] = {}

    def idle(self) -> None:
        """Begin a watch."""
        self._watches.append(set())
        self._is_idle = True

    def begin(self) -> None:
        """Reset the trace, and wait for the next request."""
        self._is_idle = False
        self._loops = set.intersection(*self._watches) if self._watches else set()
        self._number += 1
        self._modules, self._way, self._times = {}, {}, {}
        self._is_armed = True

    def report(self) -> dict[str, dict[str, int]]:
        """Stop, and return the records."""
        self._is_armed = self._is_running = False
        return {"modules": dict(self._modules), "way": dict(self._way), "times": dict(self._times)}

    def reached(self, what: str) -> None:
        """Record the first time at a point."""
        if self._is_running:
            self._times.setdefault(what, time.monotonic_ns())

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """The profiling function."""
        if event != "call":
            return
        if self._is_idle:
            if (first := _first_of_task(frame)) is not None:
                self._watches[-1].add(first.f_code)
        elif self._is_armed and frame.f_code.co_name == "data_received":
            self._is_armed, self._is_running = False, True
            _request.set(self._number)
        if self._is_running:
            self._note_points(frame.f_code)
            if _is_counted(frame.f_code):
                self._note_module(frame)

    def _note_points(self, code: CodeType) -> None:
        if code is self.resolver:
            self.reached("resolver")
        elif code.co_qualname == "RequestResponseCycle.send" and "resolver" in self._times:
            self.reached("answer")

    def _note_module(self, frame: FrameType) -> None:
        name = frame.f_code.co_filename
        if name in self._modules and name in self._way:
            return
        first = _first_of_task(frame)
        if first is not None and first.f_code in self._loops:
            return
        now = time.monotonic_ns()
        self._modules.setdefault(name, now)
        if "resolver" in self._times and "answer" not in self._times and _request.get() == self._number:
            self._way.setdefault(name, now)


def _is_counted(code: CodeType) -> bool:
    """Whether it is a hand-written function of the project."""
    name = code.co_filename
    return name.startswith(SOURCES) and GENERATED not in name and code.co_flags & FUNCTION == FUNCTION


def _first_of_task(frame: FrameType) -> FrameType | None:
    """The event loop's task function among a frame's callers; None in another thread."""
    inner: FrameType | None = None
    outer: FrameType | None = frame
    while outer is not None:
        if outer.f_code is RUN:
            return inner
        inner, outer = outer, outer.f_back
    return None


def main() -> None:
    commands, answers, spawner_trace = sys.argv[1:4]
    trace = Trace()
    _find_resolver(trace)
    _hand_requests_to_threads()
    _trace_spawner(trace, spawner_trace)
    threading.Thread(target=_obey, args=(trace, int(commands), int(answers)), daemon=True).start()
    sys.argv = ["aliquot", *sys.argv[4:]]
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    runpy.run_module("aliquot", run_name="__main__", alter_sys=True)


def _obey(trace: Trace, commands: int, answers: int) -> None:
    with os.fdopen(commands) as lines, os.fdopen(answers, "w") as out:
        for line in lines:
            do = {"idle": trace.idle, "begin": trace.begin, "report": trace.report}[line.strip()]
            print(json.dumps(do()), file=out, flush=True)


def _find_resolver(trace: Trace) -> None:
    """Get the function behind the GraphQL field from the schema when it is made, in any module."""
    import strawberry
    from strawberry.types.base import has_object_definition

    made = strawberry.Schema.__init__

    @functools.wraps(made)
    def make(self: strawberry.Schema, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        mutation = named.get("mutation")
        if mutation is not None and has_object_definition(mutation):
            for field in mutation.__strawberry_definition__.fields:
                if (field.graphql_name or field.python_name) == FIELD and field.base_resolver is not None:
                    trace.resolver = field.base_resolver.wrapped_func.__code__

    strawberry.Schema.__init__ = make  # type: ignore[method-assign]


def _hand_requests_to_threads() -> None:
    """Pool work belongs to the request that submitted it."""
    submitted = ThreadPoolExecutor.submit

    @functools.wraps(submitted)
    def submit(self: ThreadPoolExecutor, work: Any, /, *arguments: Any, **named: Any) -> Any:
        return submitted(self, contextvars.copy_context().run, work, *arguments, **named)

    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]


def _trace_spawner(trace: Trace, spawner_trace: str) -> None:
    """Run the tracing program in front of a project folder that is run as a program, and record its orders."""
    started, write = subprocess.Popen.__init__, os.write
    tracer = str(Path(__file__).with_name("spawner.py"))

    @functools.wraps(started)
    def start(self: Any, words: Any, *arguments: Any, **named: Any) -> None:
        folders = [word for word in words if _is_program(word)] if isinstance(words, list | tuple) else []
        if folders:
            at = words.index(folders[0])
            words = [*words[:at], tracer, words[at], spawner_trace, *words[at + 1 :]]
        started(self, words, *arguments, **named)
        if folders:
            trace.spawner_pipe = self.stdin.fileno()

    def write_noted(file: int, data: Any, /) -> int:
        if file == trace.spawner_pipe:
            trace.reached("order")
        return write(file, data)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]
    os.write = write_noted


def _is_program(word: object) -> bool:
    return isinstance(word, str) and word.startswith(SOURCES) and (Path(word) / "__main__.py").is_file()


if __name__ == "__main__":
    main()
