"""A proxy before PostgreSQL's socket, which can be made to let nothing through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from store_postgres import PostgresCluster


class PostgresProxy:
    """Between a server and its database."""

    def __init__(self, target: Path, *, folder: Path, database_url: str) -> None:
        self._target = target
        self._socket = folder / target.name
        self.url = f"{database_url.partition('?')[0]}?host={quote(str(folder), safe='/')}"
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._socket)

    def stall(self) -> None:
        """Keep connections, and let nothing through."""
        self._open.clear()

    def mend(self) -> None:
        """Be a wire again; what was held back comes through."""
        self._open.set()

    async def close(self) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._target)
        for source, sink in ((reader, back), (there, writer)):
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
            sink.transport.abort()


@asynccontextmanager
async def postgres_proxy(cluster: PostgresCluster, database_url: str) -> AsyncIterator[PostgresProxy]:
    with TemporaryDirectory(prefix="aliquot-pgx-") as folder:
        proxy = PostgresProxy(cluster.socket, folder=Path(folder), database_url=database_url)
        await proxy.start()
        try:
            yield proxy
        finally:
            await proxy.close()
