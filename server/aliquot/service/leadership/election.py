"""Leader election: each server follows the event log, and leads while it has the leadership lock.

`Follower` keeps the state up to date with the log, whichever server writes it. `LockTimeout` ends a server that must
lead when another one keeps the lock.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from aliquot.service.foresight.ports import BoardRelay
from aliquot.service.foresight.relay import EVERY_S as RECEIVE_S
from aliquot.service.foresight.relay import BoardReceiver
from aliquot.service.leadership.follower_verdicts import FollowerVerdicts
from aliquot.service.leadership.leader import LeaderTerm
from aliquot.service.leadership.ports import (
    CommitNotifications,
    LeadershipLock,
    LeadershipLost,
    LeadershipStatus,
    ServerRole,
    SharedStore,
    TermStart,
)
from aliquot.service.leadership.readings_relay import ReadingsExchange, ReadingsRelay
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.state.journal import Journal
from aliquot.service.use_cases import UseCases
from aliquot_schema.async_tasks import raise_if_canceled, to_its_end
from aliquot_schema.errors import Unavailable

POLL_S: Final = 2.0
"""Interval at which the log is read even without a notification, in seconds."""

following_log: Final = logging.getLogger("aliquot.following")


class Follower:
    """Applies events committed by other servers. The leader does so too, as followers commit users' requests."""

    def __init__(self, *, journal: Journal, news: CommitNotifications) -> None:
        self._journal = journal
        self._news = news
        self.fault: str | None = None
        """A message that says why the log cannot be read; None when it can."""

    async def run(self) -> None:
        """Follow the log until cancelled."""
        while True:
            await self._news.wait(seconds=POLL_S)
            await self.run_once()
            raise_if_canceled()

    async def run_once(self) -> None:
        """Apply all events committed so far. An unavailable store is retried in the next run."""
        try:
            while await self._journal.catch_up():
                pass
        except StoreUnavailable as error:
            if self.fault is None:
                following_log.error("the log cannot be followed now: %s", error)
            self.fault = str(error)
            return
        if self.fault is not None:
            following_log.warning("the log is followed again")
        self.fault = None


PATIENCE_S: Final = 15.0
"""Longer than it takes to free the lock of a server that is frozen or disconnected."""


class LockTimeout:
    """Fails when another server has held the lock for `PATIENCE_S` without a break."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def check(self, leader: str | None) -> None:
        """Record the present holder of the lock.

        Args:
            leader: its address, empty when unknown; None when the lock is free.
        Raises:
            Unavailable: another server has held it for more than `PATIENCE_S`.
        """
        if leader is None:
            self._since = None
            return
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > PATIENCE_S:
            raise Unavailable(
                f"{leader or 'another server'} leads this database, and a server with agents of its own must lead "
                "itself: give this one --no-local-agents, and its devices to `aliquot agent`"
            )


TRY_S: Final = 0.5
"""Interval between two attempts to take the lock, in seconds."""

log: Final = logging.getLogger("aliquot.leadership")

OpenTerm = Callable[[TermStart], AbstractAsyncContextManager[LeaderTerm]]


class LeaderElection:
    """One server's part in the election. `run` ends only by cancellation or when a loop fails, not with a lost lock."""

    def __init__(
        self,
        cases: UseCases,
        *,
        store: SharedStore,
        seat: LeadershipLock,
        news: CommitNotifications | None,
        open_term: OpenTerm,
        address: str,
        must_lead: bool = False,
        relay: ReadingsRelay | None = None,
        boards: BoardRelay | None = None,
    ) -> None:
        """
        Args:
            open_term: opens the parts that only a leader has, agents included, and closes them at the end of the term.
            address: URL at which users and agents reach this server.
            must_lead: whether to fail when another server leads.
            news: None = no other server writes the database; the log is not followed, and a term that ends with an
                error ends the server.
            relay: None = only the leader knows device readings.
            boards: None = only the leader knows forecasts.
        """
        self._cases = cases
        self._store = store
        self._seat = seat
        self._news = news
        self._open_term = open_term
        self._address = address
        self._lock_timeout = LockTimeout(clock=cases.clock) if must_lead and news is not None else None
        self._verdicts = FollowerVerdicts(cases)
        self._follower = None if news is None else Follower(journal=cases.journal, news=news)
        self._exchange = None if relay is None else ReadingsExchange(cases, relay)
        self._board = None if boards is None else BoardReceiver(cases.state.board, relay=boards, clock=cases.clock)
        self._moved = asyncio.Event()
        self._is_led = False
        self.standing = LeadershipStatus(
            role=ServerRole.FOLLOWER, address=address, leader_address=None, epoch=0, since_us=None
        )

    @property
    def fault(self) -> str | None:
        """A message that says why this server cannot serve; None when it can."""
        return self._cases.journal.unreachable or (None if self._follower is None else self._follower.fault)

    @property
    def why_unled(self) -> str | None:
        """A message that says why this server knows no leader; None when it knows one."""
        if self.standing.role is ServerRole.LEADER:
            return None
        return self.fault or (None if self._is_led else "no server holds the leadership lock")

    async def run(self) -> None:
        """Follow the log, and lead while this server has the lock, until cancelled."""
        try:
            async with asyncio.TaskGroup() as loops:
                if self._follower is not None:
                    loops.create_task(self._follower.run(), name="following")
                    loops.create_task(self._verdicts.run(), name="judging")
                if self._exchange is not None:
                    loops.create_task(self._exchange.run(), name="readings")
                if self._board is not None:
                    loops.create_task(self._receive_forecasts(self._board), name="forecasts of the leader")
                loops.create_task(self._campaign(), name="leading")
        finally:
            self._verdicts.close()
            await self._seat.leave()
            if self._news is not None:
                await self._news.close()

    async def until_settled(self) -> None:
        """Wait until a leader is known."""
        while self.standing.role is not ServerRole.LEADER and not self._is_led:
            await self._moved.wait()

    async def _receive_forecasts(self, board: BoardReceiver) -> None:
        while True:
            if not self._cases.journal.leads:
                await board.run_once()
            raise_if_canceled()
            await self._cases.clock.sleep(RECEIVE_S)

    async def _campaign(self) -> None:
        while True:
            try:
                if await self._seat.take():
                    await to_its_end(self._lead())
                else:
                    await self._observe_leader()
                    self._note_contact(None)
            except StoreUnavailable as error:
                self._note_contact(error)
                log.warning("no leader can be elected now: %s", error)
            raise_if_canceled()
            await self._cases.clock.sleep(TRY_S)

    async def _lead(self) -> None:
        """Lead from taking the lock until losing it."""
        self._note_contact(None)
        try:
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._hold(), name="seat")
                loops.create_task(self._serve_term(), name="term")
        except* (LeadershipLost, NotLeader, StoreUnavailable) as ends:
            if self._news is None:
                raise
            log.warning("this server no longer leads: %s", "; ".join(map(str, _flat(ends))))
        finally:
            self._cases.journal.follow()
            await self._seat.leave()
            self._move(ServerRole.FOLLOWER, leader=None, epoch=self.standing.epoch, since_us=self.standing.since_us)

    async def _hold(self) -> None:
        try:
            await self._seat.hold()
        except LeadershipLost as lost:
            self._note_contact(lost)  # first: the end of a term may wait for the database
            raise

    def _note_contact(self, failure: Exception | None) -> None:
        """Refuse changes while the database cannot be reached. Other failures, like too many connections, do not
        concern connections that are open."""
        cause = None if failure is None else failure.__cause__
        words = None
        if isinstance(cause, OSError):
            words = f"the database cannot be reached: {str(cause) or type(cause).__name__}; try again in a few seconds"
        self._cases.journal.refuse_changes(words)

    async def _serve_term(self) -> None:
        beginning = await self._store.begin_term()
        while self._cases.state.revision < beginning.revision:
            await self._cases.journal.catch_up()
        self._cases.journal.lead(beginning.epoch)
        log.warning("this server leads in epoch %d", beginning.epoch)
        async with self._open_term(beginning) as term:
            self._move(ServerRole.LEADER, leader=self._address, epoch=beginning.epoch, since_us=beginning.began_us)
            try:
                await to_its_end(term.run())
            finally:
                self._cases.journal.follow()  # first: closing a term takes time

    async def _observe_leader(self) -> None:
        leader, present = await self._seat.holder(), await self._store.present_term()
        self._is_led = leader is not None
        if self._lock_timeout is not None:
            self._lock_timeout.check(leader)
        self._move(ServerRole.FOLLOWER, leader=leader or None, epoch=present.epoch, since_us=present.began_us)

    def _move(self, role: ServerRole, *, leader: str | None, epoch: int, since_us: int | None) -> None:
        before = self.standing
        self.standing = LeadershipStatus(
            role=role, address=self._address, leader_address=leader, epoch=epoch, since_us=since_us
        )
        if role is ServerRole.FOLLOWER and leader is not None and leader != before.leader_address:
            log.warning("%s leads in epoch %d; this server follows", leader, epoch)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _flat(ends: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in ends.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error
