"""Applications of the HTTP API, each served in a process of its own, as the server does."""

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from aliquot.cli.serve import GcTuning

START_S_MAX: Final = 120.0

Serving = Callable[[ASGIApp], Coroutine[Any, Any, None]]
"""Serves an application until the process ends."""


class Served(NamedTuple):
    """Where it is."""

    pid: int
    port: int

    def cpu_s(self) -> float:
        """Its CPU time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Its resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024


@asynccontextmanager
async def served(run: Callable[[Serving], Coroutine[Any, Any, None]]) -> AsyncIterator[Served]:
    """Start a process that runs a function of a module; the function makes an application and serves it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(run, theirs), daemon=True)
    process.start()
    try:
        assert await asyncio.to_thread(ours.poll, START_S_MAX), "it did not start"
        yield Served(process.pid or 0, ours.recv())
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)


def _main(run: Callable[[Serving], Coroutine[Any, Any, None]], pipe: Pipe) -> None:
    gc.disable()
    with asyncio.Runner(loop_factory=uvicorn.Config("x").get_loop_factory()) as runner:
        runner.run(run(partial(_serve, pipe=pipe)))


async def _serve(application: ASGIApp, *, pipe: Pipe) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        application,
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        server_header=False,
    )
    GcTuning().begin()
    pipe.send(listener.getsockname()[1])
    await uvicorn.Server(config).serve(sockets=[listener])
