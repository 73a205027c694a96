"""An event loop with virtual time and an order drawn from a seed: one seed = one run.

A process is a context variable: its tasks, and their timers and callbacks, inherit it. A process
can be paused, as by SIGSTOP, and killed without cleanup, as by SIGKILL.
"""

import asyncio
import heapq
from asyncio import Handle
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any


class Process:
    """A process that can be paused and killed."""

    def __init__(self, name: str, loop: "SeededLoop") -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self._loop = loop
        self._deferred: list[Handle] = []
        self.tasks: dict[NumberedTask, None] = {}
        loop.processes.append(self)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something in this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return self._loop.create_task(work, context=context)

    def defer(self, handle: Handle) -> None:
        self._deferred.append(handle)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """All callbacks that became due meanwhile run immediately."""
        self.is_paused = False
        for handle in self._deferred:
            self._loop.add_ready(handle)
        self._deferred.clear()

    async def kill(self) -> None:
        """End all its tasks. It no longer affects other processes, so its cleanup has no effect."""
        self.is_alive = False
        self.resume()
        while left := [task for task in self.tasks if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.sleep(0)


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class NumberedTask(asyncio.Task):  # type: ignore[type-arg]  # the C class takes no parameter here
    """Sets of these iterate in the same order in every run, unlike sets by address."""

    def __init__(self, work: Any, *, loop: "SeededLoop", **more: Any) -> None:
        self.number = loop.next_number()
        super().__init__(work, loop=loop, **more)

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(asyncio.Future):  # type: ignore[type-arg]
    """As `NumberedTask`."""

    def __init__(self, *, loop: "SeededLoop") -> None:
        self.number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SeededLoop(asyncio.BaseEventLoop):
    """Picks the next ready callback at random. No threads: an executor's work runs in between."""

    _ready: deque[Handle]
    _scheduled: list[Any]

    def __init__(self, random: Random, *, steps_max: int) -> None:
        self._numbers = 0
        super().__init__()
        self.random = random
        self.steps = 0
        self.steps_max = steps_max
        self.failure: BaseException | None = None
        self.processes: list[Process] = []
        self.outside = Context()
        """Of no process."""
        self.on_step: Callable[[int], None] = lambda step: None
        self._now_s = 0.0
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._now_s

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def fail(self, failure: BaseException) -> None:
        """End the run, even if code would catch the error."""
        self.failure = self.failure or failure

    def call_outside(self, seconds: float, call: Callable[[], object]) -> None:
        """As `call_later`, even if the calling process is killed."""
        self.call_later(seconds, call, context=self.outside)

    def cancel_all_tasks(self) -> None:
        """End all remaining tasks, even uncooperative ones."""
        self.failure, self.steps_max, self.on_step = None, self.steps + 100_000, lambda step: None
        self.set_exception_handler(lambda loop, context: None)
        for process in self.processes:
            process.resume()
        while left := asyncio.all_tasks(self):
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.sleep(0))

    def add_ready(self, handle: Handle) -> None:
        self._ready.append(handle)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """As a thread: runs later and reports later still; it runs even if cancelled."""
        told = self.create_future()
        process = PROCESS.get()

        def work() -> None:
            if process is not None and not process.is_alive:
                return
            try:
                answer = func(*args)
            except Exception as error:
                self.call_later(self._random_delay_s(), _set_outcome, told, error, True)
            else:
                self.call_later(self._random_delay_s(), _set_outcome, told, answer, False)

        self.call_later(self._random_delay_s(), work)
        return told

    def _random_delay_s(self) -> float:
        return self.random.random() ** 4 * 0.05

    def _run_once(self) -> None:
        """Replaces the parent's, which polls and runs callbacks in order."""
        if self.failure is not None:
            raise self.failure
        self.steps += 1
        if self.steps > self.steps_max:
            raise AssertionError(f"it does not come to rest within {self.steps_max} steps")
        self.on_step(self.steps)
        self._take_due()
        while not self._ready:
            assert self._scheduled, "nothing will ever happen any more"
            self._now_s = max(self._now_s, self._scheduled[0]._when)
            self._take_due()
        self._run(self._draw())

    def _take_due(self) -> None:
        while self._scheduled and (self._scheduled[0]._when <= self._now_s or self._scheduled[0]._cancelled):
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            if not timer._cancelled:
                self._ready.append(timer)

    def _draw(self) -> Handle:
        place = self.random.randrange(len(self._ready))
        self._ready.rotate(-place)
        handle: Handle = self._ready.popleft()
        return handle

    def _run(self, handle: Handle) -> None:
        if handle._cancelled:
            return
        process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is not None and process.is_paused:
            process.defer(handle)
        else:
            handle._run()

    def _write_to_self(self) -> None:
        """There are no threads to wake."""

    def _process_events(self, event_list: object) -> None:
        """There are no sockets."""


def _make_task(loop: Any, work: Any, **more: Any) -> NumberedTask:
    task = NumberedTask(work, loop=loop, **more)
    process = more["context"].get(PROCESS) if more.get("context") is not None else PROCESS.get()
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(task, None))
    return task


def _set_outcome(told: asyncio.Future[Any], answer: Any, has_failed: bool) -> None:
    if told.done():
        return
    if has_failed:
        told.set_exception(answer)
    else:
        told.set_result(answer)
