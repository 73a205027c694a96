"""Gateway supervisor: runs the Ray gateway's process and restarts it whenever it ends."""

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

from aliquot.execution.ray.gateway_client import Agents, GatewayClient
from aliquot.execution.ray.node_options import driver_environment
from aliquot.execution.ray.protocol import FromGateway, Pipe, PipeBroken, RayReachable, RayUnreachable
from aliquot.execution.remote.client import WAIT_S_MAX, Backoff
from aliquot_schema.views.server import RayView

PROGRAM: Final = "aliquot.execution.ray.gateway"
END_S_MAX: Final = 3.0
LOST: Final = "the gateway to Ray has ended and is being restarted"

log: Final = logging.getLogger("aliquot.ray")


class GatewaySupervisor:
    """Connects the agents on Ray nodes while it runs."""

    def __init__(self, head: str, *, agents: Agents, token_file: Path | None, epoch: int = 0) -> None:
        """
        Args:
            head: `HOST:PORT` of Ray's control store.
            token_file: file with Ray's token; None = Ray's default location.
            epoch: epoch of the leader's term; connections of a later epoch replace earlier ones.
        """
        self._head = head
        self._agents = agents
        self._token_file = token_file
        self._epoch = epoch
        self._status = RayView(head_node=head, reason="the gateway has not reported yet")
        self._has_status = False
        """Whether the current gateway process has reported a status."""
        self._task: asyncio.Task[None] | None = None
        self.pid: int | None = None
        """Pid of the gateway's process; None if there is none."""

    @property
    def status(self) -> RayView:
        """The current state of Ray."""
        return self._status

    def start(self) -> None:
        """Start the gateway; does not wait for a status."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the gateway. Actors and kernels keep running."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            began = time.monotonic()
            self._has_status = False
            try:
                await self._run_once()
            except (PipeBroken, TimeoutError, OSError) as error:
                log.debug("the gateway to Ray has ended (%s)", error or type(error).__name__)
            if self._status.connected or not self._has_status:
                self._on_status(RayUnreachable(reason=LOST))
            if time.monotonic() - began > WAIT_S_MAX:
                backoff = Backoff()
            await asyncio.sleep(backoff.next_s())

    async def _run_once(self) -> None:
        async with self._process() as pipe:
            await GatewayClient(pipe, agents=self._agents, on_status=self._on_status).run()

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

    def _on_status(self, message: RayReachable | RayUnreachable) -> None:
        self._has_status = True
        if isinstance(message, RayUnreachable):
            status = RayView(head_node=self._head, reason=message.reason)
        else:
            status = RayView(
                head_node=self._head,
                connected=True,
                version=message.version,
                workers=message.workers,
                nodes=message.nodes,
                reason="; ".join(message.problems) or None,
            )
        if status != self._status:
            log.info("Ray at %s: %s", self._head, status.reason or f"connected, {status.workers} nodes have agents")
        self._status = status


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of the gateway, whose pipe is closed, and kill it if it is frozen."""
    try:
        async with asyncio.timeout(END_S_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


REACH_S_MAX: Final = 3.0
GRPC_HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a gRPC client says first: the preface of HTTP/2 and an empty frame of settings (RFC 9113, 3.4)."""
FRAME_HEADER: Final = 9
SETTINGS_FRAME: Final = 4


class Unreachable(Exception):
    """Ray cannot be reached now; the message says why."""


async def reach(address: str) -> None:
    """Connect, see whether a gRPC server as Ray's answers, and close again; Ray itself would retry for minutes.

    With Ray's TLS only the connection is tried.

    Args:
        address: `HOST:PORT`.
    Raises:
        Unreachable: the connection is refused or times out, or another program answers.
    """
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(REACH_S_MAX):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                is_ray = os.environ.get("RAY_USE_TLS") == "1" or await _answers_grpc(reader, writer)
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise Unreachable(f"{address} did not answer within {REACH_S_MAX:g} s") from None
    except OSError as error:
        raise Unreachable(f"{address}: {error.strerror or error}") from None
    if not is_ray:
        raise Unreachable(f"{address} is in use by another program, not by Ray's head; check the port")


async def _answers_grpc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the first answer is a frame of settings, with which every server of HTTP/2 begins."""
    writer.write(GRPC_HELLO)
    try:
        return (await reader.readexactly(FRAME_HEADER))[3] == SETTINGS_FRAME
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
