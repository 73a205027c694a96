"""The seat of the leader: an advisory lock that PostgreSQL drops when its holder's session ends, or falls silent."""

import asyncio
from typing import Any, Final

from sqlalchemy import URL

from aliquot.service.leadership.ports import SeatLost
from aliquot.store.postgres_session import FAULTS, away, connect

SEAT_KEY: Final = 0x616C_6971_5365_6174
"""One for every database of Aliquot: `aliqSeat`."""
SILENT_S_MAX: Final = 8
"""A session that says nothing for so long is ended by PostgreSQL: its server is frozen, or cut off."""
PING_S: Final = 2.0
ANSWER_S_MAX: Final = 3.0
"""With a ping before it this is less than `SILENT_S_MAX`: who is cut off knows it before another one leads."""
NAME_BYTES_MAX: Final = 63
"""PostgreSQL cuts the name of a session there."""

_TAKE: Final = "SELECT pg_try_advisory_lock($1)"
_HOLDER: Final = """
SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND (l.classid::bigint << 32 | l.objid::bigint) = $1
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class PostgresSeat:
    """A `Seat`. The holder's address is the name of its session, so that the others can read it."""

    def __init__(self, url: URL, *, address: str, silent_s: int = SILENT_S_MAX) -> None:
        """
        Args:
            address: where people and agents reach this server.
            silent_s: after so much silence PostgreSQL ends the session.
        """
        self._url = url
        self._silent_s = silent_s
        self._name = address if len(address.encode()) <= NAME_BYTES_MAX else ""
        self._session: Any = None

    async def take(self) -> bool:
        """See `Seat.take`."""
        try:
            if self._session is None:
                silent = {"idle_session_timeout": f"{self._silent_s}s"}
                self._session = await connect(self._url, name=self._name, settings=silent)
            taken: bool = await self._session.fetchval(_TAKE, SEAT_KEY, timeout=ANSWER_S_MAX)
        except FAULTS as error:
            self._drop()
            raise away(error) from error
        return taken

    async def holder(self) -> str | None:
        """See `Seat.holder`."""
        try:
            if self._session is None:
                return None
            name: str | None = await self._session.fetchval(_HOLDER, SEAT_KEY, timeout=ANSWER_S_MAX)
        except FAULTS as error:
            self._drop()
            raise away(error) from error
        return name

    async def hold(self) -> None:
        """See `Seat.hold`."""
        while True:
            await asyncio.sleep(PING_S)
            try:
                await self._session.fetchval("SELECT 1", timeout=ANSWER_S_MAX)
            except FAULTS as error:
                self._drop()
                raise SeatLost(f"the connection that holds the lead is gone: {error or type(error).__name__}") from None

    async def leave(self) -> None:
        """See `Seat.leave`."""
        session, self._session = self._session, None
        if session is not None:
            try:
                await session.close(timeout=ANSWER_S_MAX)
            except FAULTS:
                session.terminate()

    def _drop(self) -> None:
        """Without a word: a connection that does not answer would not answer a farewell either."""
        if self._session is not None:
            self._session.terminate()
            self._session = None
