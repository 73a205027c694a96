"""Leadership lock: a PostgreSQL advisory lock held by the leader's session.

PostgreSQL releases the lock when the session ends or stays silent too long. A new leader then begins a new epoch, see
`aliquot.store.loading.begin_term`.
"""

import asyncio
from typing import Any, Final

from sqlalchemy import URL

from aliquot.service.leadership.ports import LeadershipLost
from aliquot.store.engines.postgres import SESSION_ERRORS, connect, unavailable
from aliquot.store.migration import SEAT_KEY

SILENT_S_MAX: Final = 8
"""PostgreSQL ends a session after this silence: its server is frozen or disconnected."""
PING_S: Final = 2.0
ANSWER_S_MAX: Final = 3.0
"""Together with `PING_S` less than `SILENT_S_MAX`: a disconnected leader notices before another server leads."""
NAME_BYTES_MAX: Final = 63
"""PostgreSQL truncates application names to this length."""

_TAKE: Final = "SELECT pg_try_advisory_lock($1)"
_HOLDER: Final = """
SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND (l.classid::bigint << 32 | l.objid::bigint) = $1
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class PostgresLeadershipLock:
    """Implements `LeadershipLock`. The holder's address is its session's application name, which other servers read."""

    def __init__(self, url: URL, *, address: str, silent_s: int = SILENT_S_MAX) -> None:
        """
        Args:
            address: the URL at which users and agents reach this server.
            silent_s: PostgreSQL ends the session after this silence, seconds.
        """
        self._url = url
        self._silent_s = silent_s
        self._name = address if len(address.encode()) <= NAME_BYTES_MAX else ""
        self._session: Any = None

    async def take(self) -> bool:
        """See `LeadershipLock.take`."""
        try:
            if self._session is None:
                silent = {"idle_session_timeout": f"{self._silent_s}s"}
                self._session = await connect(self._url, name=self._name, settings=silent)
            taken: bool = await self._session.fetchval(_TAKE, SEAT_KEY, timeout=ANSWER_S_MAX)
        except SESSION_ERRORS as error:
            self._terminate()
            raise unavailable(error) from error
        return taken

    async def holder(self) -> str | None:
        """See `LeadershipLock.holder`."""
        try:
            if self._session is None:
                return None
            name: str | None = await self._session.fetchval(_HOLDER, SEAT_KEY, timeout=ANSWER_S_MAX)
        except SESSION_ERRORS as error:
            self._terminate()
            raise unavailable(error) from error
        return name

    async def hold(self) -> None:
        """See `LeadershipLock.hold`."""
        while True:
            await asyncio.sleep(PING_S)
            try:
                await self._session.fetchval("SELECT 1", timeout=ANSWER_S_MAX)
            except SESSION_ERRORS as error:
                self._terminate()
                raise LeadershipLost(
                    f"the connection that holds the leadership lock is lost: {str(error) or type(error).__name__}"
                ) from error

    async def leave(self) -> None:
        """See `LeadershipLock.leave`."""
        session, self._session = self._session, None
        if session is not None:
            try:
                await session.close(timeout=ANSWER_S_MAX)
            except SESSION_ERRORS:
                session.terminate()

    def _terminate(self) -> None:
        """Abort the session without a closing handshake, which a dead connection would not answer."""
        if self._session is not None:
            self._session.terminate()
            self._session = None
