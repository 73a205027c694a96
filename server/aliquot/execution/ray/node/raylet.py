"""The processes of a Ray node, started again whenever they end."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from aliquot.execution.ray.node.start_command import RayNodeOptions, start_command
from aliquot.execution.ray.reaching import Unreachable, reach
from aliquot.execution.remote.remote_agent import WAIT_S_MAX, Backoff

STOP_S_MAX: Final = 20.0
_PR_SET_PDEATHSIG: Final = 1

log: Final = logging.getLogger("aliquot.node")


class Raylet:
    """A Ray node in the foreground. Kernels that agents started there run on without it."""

    def __init__(self, options: RayNodeOptions, *, environment: Mapping[str, str]) -> None:
        self._options = options
        self._environment = dict(environment)
        self._said = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the node running until `stop` is set."""
        running = asyncio.create_task(self._run_for_ever())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)

    async def _run_for_ever(self) -> None:
        backoff = Backoff()
        while True:
            began = time.monotonic()
            try:
                if not self._options.is_head:
                    await reach(self._options.head)
                code = await self._one_life()
                self._say(f"the Ray node has ended with {code}")
            except Unreachable as error:
                self._say(f"Ray's head: {error}")
            if time.monotonic() - began > WAIT_S_MAX:
                backoff = Backoff()
            await asyncio.sleep(backoff.next_s())

    async def _one_life(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *start_command(self._options),
            env=self._environment,
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self._say(f"starting a Ray node (pid {process.pid}) of the cluster at {self._options.head}")
        try:
            return await process.wait()
        finally:
            await _end(process)

    def _say(self, words: str) -> None:
        """One line for each change."""
        if words != self._said:
            self._said = words
            log.info("%s", words)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask Ray to end its parts, and end what is left of its process group; kernels are in groups of their own."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _end_with_parent() -> None:
    """Ray's own supervision ends a node with its `ray start`; this ends `ray start` with us."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
