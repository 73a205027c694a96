"""Duty: a server of several follows the log, and leads whenever the seat is free."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from aliquot.service.leadership.canceling import raise_if_canceled, to_its_end
from aliquot.service.leadership.following import Following
from aliquot.service.leadership.judging import Judging
from aliquot.service.leadership.patience import Patience
from aliquot.service.leadership.ports import Beginning, News, Seat, SeatLost, SharedStore
from aliquot.service.leadership.relaying.ports import ReadingsRelay
from aliquot.service.leadership.relaying.relaying import Relaying
from aliquot.service.leadership.standing import ServerRole, Standing
from aliquot.service.leadership.term import Term
from aliquot.service.ports import NotLeader, StoreUnavailable
from aliquot.service.use_cases import UseCases

TRY_S: Final = 0.5
"""Between two looks at the seat."""

log: Final = logging.getLogger("aliquot.leadership")

OpenTerm = Callable[[Beginning], AbstractAsyncContextManager[Term]]


class Duty:
    """`run` returns only when a loop failed, or by cancellation; a lost seat is no failure."""

    def __init__(
        self,
        cases: UseCases,
        *,
        store: SharedStore,
        seat: Seat,
        news: News,
        open_term: OpenTerm,
        address: str,
        must_lead: bool = False,
        relay: ReadingsRelay | None = None,
    ) -> None:
        """
        Args:
            open_term: makes what only a leader has, agents included, and lets go of it at the end.
            address: where people and agents reach this server.
            must_lead: whether it fails when another one leads.
            relay: None = what devices measure is known to the leader alone.
        """
        self._cases = cases
        self._store = store
        self._seat = seat
        self._news = news
        self._open_term = open_term
        self._address = address
        self._patience = Patience(clock=cases.clock) if must_lead else None
        self._judging = Judging(cases)
        self._following = Following(journal=cases.journal, news=news)
        self._relaying = None if relay is None else Relaying(cases, relay)
        self._moved = asyncio.Event()
        self._is_led = False
        self.standing = Standing(role=ServerRole.FOLLOWER, address=address, leader_address=None, epoch=0, since_us=None)

    @property
    def fault(self) -> str | None:
        """Why this server cannot serve now, in words; None when it can."""
        return self._following.fault

    @property
    def why_unled(self) -> str | None:
        """Why this server takes it that nobody leads, in words; None when somebody does."""
        if self.standing.role is ServerRole.LEADER:
            return None
        return self.fault or (None if self._is_led else "no server has the seat")

    async def run(self) -> None:
        """Follow, and lead when it is this server's turn, for ever."""
        try:
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._following.run(), name="following")
                loops.create_task(self._judging.run(), name="judging")
                if self._relaying is not None:
                    loops.create_task(self._relaying.run(), name="readings")
                loops.create_task(self._stand(), name="leading")
        finally:
            self._judging.close()
            await self._seat.leave()
            await self._news.close()

    async def until_settled(self) -> None:
        """Wait until somebody leads."""
        while self.standing.role is not ServerRole.LEADER and not self._is_led:
            await self._moved.wait()

    async def _stand(self) -> None:
        while True:
            try:
                if await self._seat.take():
                    await to_its_end(self._lead())
                else:
                    await self._look_up()
            except StoreUnavailable as error:
                log.warning("nobody can be made leader now: %s", error)
            raise_if_canceled()
            await self._cases.clock.sleep(TRY_S)

    async def _lead(self) -> None:
        """From the moment the seat is taken until it is lost."""
        try:
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._seat.hold(), name="seat")
                loops.create_task(self._serve_term(), name="term")
        except* (SeatLost, NotLeader, StoreUnavailable) as ends:
            log.warning("this server leads no more: %s", "; ".join(map(str, _flat(ends))))
        finally:
            self._cases.journal.follow()
            await self._seat.leave()
            self._move(ServerRole.FOLLOWER, leader=None, epoch=self.standing.epoch, since_us=self.standing.since_us)

    async def _serve_term(self) -> None:
        beginning = await self._store.begin_term()
        while self._cases.state.revision < beginning.revision:
            await self._cases.journal.catch_up()
        self._cases.journal.lead(beginning.epoch)
        log.warning("this server leads, in epoch %d", beginning.epoch)
        async with self._open_term(beginning) as term:
            self._move(ServerRole.LEADER, leader=self._address, epoch=beginning.epoch, since_us=beginning.began_us)
            try:
                await to_its_end(term.run())
            finally:
                self._cases.journal.follow()  # before what takes its time at the end of a term

    async def _look_up(self) -> None:
        leader, present = await self._seat.holder(), await self._store.present_term()
        self._is_led = leader is not None
        if self._patience is not None:
            self._patience.check(leader)
        self._move(ServerRole.FOLLOWER, leader=leader or None, epoch=present.epoch, since_us=present.began_us)

    def _move(self, role: ServerRole, *, leader: str | None, epoch: int, since_us: int | None) -> None:
        before = self.standing
        self.standing = Standing(
            role=role, address=self._address, leader_address=leader, epoch=epoch, since_us=since_us
        )
        if role is ServerRole.FOLLOWER and leader is not None and leader != before.leader_address:
            log.warning("%s leads, in epoch %d; this server follows", leader, epoch)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _flat(ends: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in ends.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error
