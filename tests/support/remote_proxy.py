"""A TCP proxy on loopback that cuts connections or stops forwarding."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """Between an agent and its server, or a server and its database."""

    def __init__(self, dial: Callable[[], Awaitable[Streams]]) -> None:
        """`dial`: connects to the target."""
        self._dial = dial
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_cut = False
        self.accepted = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Drop every connection, now and later."""
        self.is_cut = True
        for writer in tuple(self._writers):
            writer.transport.abort()

    def stall(self) -> None:
        """Keep connections, and forward nothing."""
        self._open.clear()

    def resume(self) -> None:
        """Forward again, including the data held back."""
        self.is_cut = False
        self._open.set()

    async def close(self) -> None:
        self.cut()
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.is_cut:
            writer.transport.abort()
            return
        try:
            there, back = await self._dial()
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, back), (there, writer)):
            self._writers.add(sink)
            task = asyncio.get_running_loop().create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(65536):
                    await self._open.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            self._writers.discard(sink)
            sink.transport.abort()


@asynccontextmanager
async def proxied(dial: Callable[[], Awaitable[Streams]]) -> AsyncIterator[Proxy]:
    proxy = Proxy(dial)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    """Before a port of this machine."""
    async with proxied(partial(asyncio.open_connection, "127.0.0.1", port)) as proxy:
        yield proxy
