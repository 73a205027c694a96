"""Blocking wrappers of async calls, which may be interrupted at any instruction."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator

import pytest

from aliquot.client import BlockingClient, Client, ServerUnreachable
from aliquot.client.blocking_calls import BlockingCalls, _Steps

INTERRUPTED = 2000
"""Number of interrupts by Ctrl-C, at random moments of a call."""

COURSE = f"""
import asyncio, random, signal
from aliquot.client.blocking_calls import BlockingCalls

signal.signal(signal.SIGALRM, signal.default_int_handler)
calls = BlockingCalls()

async def numbers():
    while True:
        await asyncio.sleep(0.0002)
        yield 1

async def one():
    return 1

def interrupted(after_s):
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        for _ in calls._each(numbers()):
            pass
    except KeyboardInterrupt:
        return True

chance = random.Random(1)
for _ in range({INTERRUPTED}):
    assert interrupted(chance.uniform(0.00002, 0.0012))
    assert calls._run(one()) == 1
calls._end()
"""


def test_an_interrupted_client_can_make_further_calls() -> None:
    done = subprocess.run([sys.executable, "-c", COURSE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_blocking_iteration_yields_items_and_raises_failures() -> None:
    async def numbers() -> AsyncGenerator[int, None]:
        yield 1
        yield 2
        raise ServerUnreachable("away")

    calls = BlockingCalls()
    items = calls._each(numbers())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ServerUnreachable):
        next(items)
    calls._end()


def test_blocking_iteration_can_be_left_early() -> None:
    left: list[bool] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            left.append(True)

    calls = BlockingCalls()
    items = calls._each(numbers())
    assert next(items) == 1
    items.close()
    calls._end()
    assert left == [True]


def test_an_abandoned_iteration_step_is_cancelled() -> None:
    async def silence() -> AsyncGenerator[int, None]:
        await asyncio.Event().wait()
        yield 1

    calls = BlockingCalls()
    steps = _Steps(silence())
    # An interrupt just here leaves nothing to cancel it by.
    left = asyncio.run_coroutine_threadsafe(steps.take(), calls._loop)
    calls._run(steps.close())
    assert left.cancelled()
    calls._end()


@pytest.mark.parametrize("uses_loop", [False, True])
def test_a_closed_client_says_so_and_may_be_closed_again(uses_loop: bool) -> None:
    client = BlockingClient("http://127.0.0.1:1", "token")
    if uses_loop:
        assert client.run(lambda _: asyncio.sleep(0, "done")) == "done"
    left = client.each(lambda _: numbers())
    if uses_loop:
        assert next(left) == 1
    client.close()
    for call in (lambda: client.run(lambda _: asyncio.sleep(0)), lambda: client.execute("{ __typename }")):
        with pytest.raises(RuntimeError, match="this client is closed; make a new one"):
            call()
    left.close()
    client.close()


async def numbers() -> AsyncGenerator[int, None]:
    yield 1
    yield 2


def test_a_stream_that_a_failed_call_left_is_closed_with_the_client() -> None:
    closed = threading.Event()

    async def items() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            closed.set()

    left = items()  # as the traceback of the failure would keep it

    async def work(_: Client) -> None:
        async for _ in left:
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"), BlockingClient("http://127.0.0.1:1", "token") as client:
        client.run(work)
    assert closed.is_set()
