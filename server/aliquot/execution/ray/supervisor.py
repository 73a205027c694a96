"""The gateway's process, started again whenever it ends."""

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aliquot.execution.ray.environment import driver_environment
from aliquot.execution.ray.exchange import Agents, Exchange
from aliquot.execution.ray.messages import Apart, FromGateway, Joined
from aliquot.execution.ray.pipe import Pipe, PipeBroken
from aliquot.execution.remote.remote_agent import WAIT_S_MAX, Backoff
from aliquot_schema.ray_views import RayView

PROGRAM: Final = "aliquot.execution.ray.gateway"
END_S_MAX: Final = 3.0
LOST: Final = "the gateway to Ray has ended, and is started again"

log: Final = logging.getLogger("aliquot.ray")


class GatewaySupervisor:
    """Lets agents on Ray nodes be met, for as long as it runs."""

    def __init__(self, head: str, *, agents: Agents, token_file: Path | None, epoch: int = 0) -> None:
        """
        Args:
            head: `HOST:PORT` of Ray's control store.
            token_file: what opens Ray's doors; None = where Ray looks by itself.
            epoch: of the server's term, where servers take turns: the connections of a later one count as newer.
        """
        self._head = head
        self._agents = agents
        self._token_file = token_file
        self._epoch = epoch
        self._status = RayView(head_node=head, reason="it was not asked yet")
        self._has_told = False
        """Whether this life of the gateway said how Ray is."""
        self._task: asyncio.Task[None] | None = None
        self.pid: int | None = None
        """The gateway's process, when there is one."""

    @property
    def status(self) -> RayView:
        """How Ray is now."""
        return self._status

    def start(self) -> None:
        """Begin; returns before anything is known of Ray."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the gateway. Actors stay, and kernels run on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            began = time.monotonic()
            self._has_told = False
            try:
                await self._one_life()
            except (PipeBroken, TimeoutError, OSError) as error:
                log.debug("the gateway to Ray has ended (%s)", error or type(error).__name__)
            if self._status.connected or not self._has_told:
                self._note(Apart(reason=LOST))
            if time.monotonic() - began > WAIT_S_MAX:
                backoff = Backoff()
            await asyncio.sleep(backoff.next_s())

    async def _one_life(self) -> None:
        async with self._process() as pipe:
            await Exchange(pipe, agents=self._agents, tell=self._note).run()

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[Pipe[FromGateway]]:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", PROGRAM, self._head, str(theirs.fileno()), str(self._epoch)),
                env=driver_environment(os.environ, token_file=self._token_file),
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.pid = process.pid
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        pipe: Pipe[FromGateway] = Pipe(reader, writer, incoming=FromGateway)
        try:
            yield pipe
        finally:
            self.pid = None
            pipe.close()
            await _end(process)

    def _note(self, told: Joined | Apart) -> None:
        self._has_told = True
        if isinstance(told, Apart):
            status = RayView(head_node=self._head, reason=told.reason)
        else:
            status = RayView(
                head_node=self._head,
                connected=True,
                version=told.version,
                workers=told.workers,
                nodes=told.nodes,
                reason="; ".join(told.problems) or None,
            )
        if status != self._status:
            log.info("Ray at %s: %s", self._head, status.reason or f"connected, {status.workers} nodes have agents")
        self._status = status


async def _end(process: asyncio.subprocess.Process) -> None:
    """It ends by itself when its pipe is closed; a frozen one does not."""
    try:
        async with asyncio.timeout(END_S_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
