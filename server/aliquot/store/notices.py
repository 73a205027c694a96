"""Notices: every commit tells all servers of one PostgreSQL database that the log has grown."""

import asyncio
from typing import Any, Final

from sqlalchemy import URL

from aliquot.service.ports import StoreUnavailable
from aliquot.store.channel import CHANNEL
from aliquot.store.postgres_session import FAULTS, away, connect

ANSWER_S_MAX: Final = 3.0


class PostgresNotices:
    """`News` by LISTEN, on a connection of its own, which is made again when it breaks."""

    def __init__(self, url: URL, *, server_id: str) -> None:
        self._url = url
        self._server_id = server_id
        self._session: Any = None
        self._news = asyncio.Event()

    async def wait(self, *, seconds: float) -> None:
        """See `News.wait`."""
        try:
            if self._session is None:
                await self._listen()
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            await self._check()
        except StoreUnavailable:
            await asyncio.sleep(seconds)
        self._news.clear()

    async def close(self) -> None:
        """Listen no more."""
        session, self._session = self._session, None
        if session is not None:
            session.terminate()

    async def _listen(self) -> None:
        session = await connect(self._url, name="aliquot notices")
        session.add_termination_listener(self._end)
        try:
            await session.add_listener(CHANNEL, self._hear)
        except FAULTS as error:
            session.terminate()
            raise away(error) from error
        except asyncio.CancelledError:
            session.terminate()
            raise
        self._session = session
        self._news.set()  # what was committed before the first notice could come

    async def _check(self) -> None:
        """Silence may mean that nothing was committed, or that the connection is cut."""
        session = self._session
        try:
            if session is not None:
                await session.execute("SELECT 1", timeout=ANSWER_S_MAX)
        except FAULTS:
            session.terminate()
            self._end(session)

    def _hear(self, _session: object, _pid: int, _channel: str, server_id: str) -> None:
        if server_id != self._server_id:
            self._news.set()

    def _end(self, session: object) -> None:
        if session is self._session:
            self._session = None
            self._news.set()
