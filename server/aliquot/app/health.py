"""Health of a server: loops that measure event-loop lag, database and queue, and the conditions they find."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from aliquot.api.authentication import TOKEN_CHARS_MIN
from aliquot.app.running import Running
from aliquot.clock import SystemClock
from aliquot.errors import ConfigurationError
from aliquot.execution.remote.dialing import expires_soon
from aliquot.service.leadership.ports import ServerRole
from aliquot.service.metrics.health import (
    STALL_S,
    Availability,
    Backlog,
    HealthCondition,
    LoopLag,
    watch_database,
)
from aliquot.settings import Settings


class CertificateExpiry:
    """Tells when the server's TLS certificate is about to expire. The file is read again when it has changed."""

    def __init__(self, path: Path | None, *, wall_us: Callable[[], int]) -> None:
        """
        Args:
            path: PEM, the server's own certificate first; None = plain HTTP.
            wall_us: the present time.
        """
        self._path = path
        self._wall_us = wall_us
        self._seen: tuple[int, int] | None = None
        self._span: tuple[datetime, datetime] | None = None

    def warning(self) -> str | None:
        """A sentence in the last 14 days, or the last fifth of a shorter lifetime; None before that."""
        span = self._valid()
        if self._path is None or span is None:
            return None
        (begins, ends), now = span, datetime.fromtimestamp(self._wall_us() / 1e6, UTC)
        if not expires_soon(begins, ends, now=now):
            return None
        verb = "expires" if ends > now else "expired"
        return f"the TLS certificate {self._path} {verb} on {ends:%Y-%m-%d at %H:%M} UTC; renew it, and put it there"

    def _valid(self) -> tuple[datetime, datetime] | None:
        if self._path is None:
            return None
        from cryptography import x509

        try:
            found = self._path.stat()
            if self._seen != (stamp := (found.st_ino, found.st_mtime_ns)):
                own = x509.load_pem_x509_certificate(self._path.read_bytes())
                self._seen, self._span = stamp, (own.not_valid_before_utc, own.not_valid_after_utc)
        except (OSError, ValueError):  # in the middle of a replacement; the listener logs what it cannot use
            pass
        return self._span


@asynccontextmanager
async def watched(running: Running, settings: Settings) -> AsyncIterator[tuple[LoopLag, Availability]]:
    """Measure event-loop lag, availability, database and queue while the context is open."""
    clock, lag, availability, database = SystemClock(), LoopLag(), Availability(), running.database
    backlog = Backlog(settings.queue_backlog)
    loops = [
        asyncio.create_task(lag.run(clock.sleep), name="event loop lag"),
        asyncio.create_task(
            availability.run(lambda: conditions_of(running, lag), sleep=clock.sleep), name="availability"
        ),
        asyncio.create_task(watch_database(database.ask, database.measures, clock=clock), name="database watch"),
        asyncio.create_task(
            backlog.run(running.cases.state, running.cases.journal, sleep=clock.sleep), name="queue backlog"
        ),
    ]
    try:
        yield lag, availability
    finally:
        for loop in loops:
            loop.cancel()
            with suppress(asyncio.CancelledError):
                await loop


def conditions_of(
    running: Running, lag: LoopLag, certificate: CertificateExpiry | None = None
) -> tuple[HealthCondition, ...]:
    """Present health conditions of a server, fatal ones first."""
    found = [*_fatal(running, lag)]
    standing, space = running.standing(), running.cases.state.disk_space
    if standing.role is ServerRole.FOLLOWER and standing.leader_address is None:
        words = "this server knows no leader: nothing is placed or launched until one is elected"
        found.append(HealthCondition(code="leader_unknown", message=words, is_fatal=False))
    codes = ["disk_low"] * (space.server is not None) + ["agent_disk_low"] * len(space.agents)
    for code, words in zip(codes, space.shortages(), strict=True):
        found.append(HealthCondition(code=code, message=words, is_fatal=False))
    if (fault := running.cases.history.fault) is not None:
        found.append(HealthCondition(code="history_impaired", message=fault, is_fatal=False))
    if (difference := running.database.clock_warning()) is not None:
        found.append(HealthCondition(code="clock_differs", message=difference, is_fatal=False))
    if certificate is not None and (expiry := certificate.warning()) is not None:
        found.append(HealthCondition(code="certificate_expiring", message=expiry, is_fatal=False))
    return tuple(found)


def _fatal(running: Running, lag: LoopLag) -> list[HealthCondition]:
    found = []
    fault = running.missing()
    if running.failed.is_set():
        found.append(HealthCondition(code="loop_failed", message=fault or "a loop of the server failed", is_fatal=True))
    elif fault is not None or not running.database.measures.is_up:
        words = fault or "the database does not answer or cannot be written"
        found.append(HealthCondition(code="database_down", message=words, is_fatal=True))
    if lag.worst_s() > STALL_S:
        words = f"the event loop was held up for {lag.worst_s():.1f} s within the last half minute"
        found.append(HealthCondition(code="event_loop_stalled", message=words, is_fatal=True))
    return found


def metrics_token(settings: Settings) -> str | None:
    """The bearer token required to read metrics; None when no file is configured.

    Raises:
        ConfigurationError: the file cannot be read, or holds no valid token.
    """
    path = settings.metrics_token_file
    if path is None:
        return None
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"metrics-token-file: {path} cannot be read: {error}") from None
    if len(token) < TOKEN_CHARS_MIN or not token.isascii():
        raise ConfigurationError(f"metrics-token-file: {path} must hold at least {TOKEN_CHARS_MIN} ASCII characters")
    return token
