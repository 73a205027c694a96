"""The lookout: a server that follows says so when nobody leads, for whoever leads cannot."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.notices import backoff
from aliquot.service.notices.handing import Address, handed_over
from aliquot.service.notices.letters import Letter
from aliquot.service.notices.room import Room
from aliquot.service.notices.routing import Fact, receivers_of
from aliquot.service.notices.rules import Rules
from aliquot.service.notices.terms import SECOND_US, duration, printable
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.errors import Unavailable
from aliquot_schema.notices import ALERT_PREFIX, DELIVERY_PREFIX, Alert, AlertRule, Delivery, DeliveryState, NoticeKind

log: Final = logging.getLogger("aliquot.notices")

LOOK_S: Final = 5.0
ACTOR: Final = "system:lookout"


class Lookout:
    """Sends by itself, and once it can, writes down that it did. Several servers may say it, each once."""

    def __init__(
        self,
        room: Room,
        *,
        rules: Rules,
        addresses: Mapping[str, Address],
        address: str,
        why: Callable[[], str | None],
    ) -> None:
        """
        Args:
            address: where this server is reached.
            why: in words, why it takes it that nobody leads; None when somebody does.
        """
        self._state, self._journal, self._clock, self._ids = room.state, room.journal, room.clock, room.ids
        self._rules, self._addresses, self._address, self._why = rules, addresses, address, why
        self._since_us: int | None = None
        self._alert: Alert | None = None
        """What it has said and is not over."""
        self._is_written = False
        self._untold: list[Delivery] = []
        """When each is tried next is in it."""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self.run_once()
            except Exception:
                log.exception("whether somebody leads could not be told")
            await self._clock.sleep(LOOK_S)

    async def run_once(self) -> None:
        """Look once, and try again what could not be sent."""
        why, now_us = self._why(), self._clock.now_us()
        rule = self._rules.of(AlertRule.NO_LEADER)
        if why is None:
            await self._end(now_us)
            return
        self._since_us = now_us if self._since_us is None else self._since_us
        if self._alert is None and rule.is_on and now_us - self._since_us >= rule.for_s * SECOND_US:
            await self._begin(why, now_us)
        elif self._alert is not None:
            await self._tell()

    async def _begin(self, why: str, now_us: int) -> None:
        alert = self._alert = Alert(
            id=self._ids.new(ALERT_PREFIX),
            rule=AlertRule.NO_LEADER,
            subject=self._address,
            severity=self._rules.of(AlertRule.NO_LEADER).severity,
            words=printable(f"nobody leads, as {self._address} sees it: {why}"),
            opened_us=now_us,
            told_us=now_us,
        )
        log.error("%s", alert.words)
        self._untold = self._deliveries(alert, alert.words, now_us, is_over=False)
        # Beside each other: a database that says nothing is waited for longer than anybody should be kept from knowing.
        async with asyncio.TaskGroup() as works:
            writing = works.create_task(self._write(partial(_open, alert)))
            works.create_task(self._tell())
        self._is_written = writing.result()

    async def _end(self, now_us: int) -> None:
        """What is in the log, at the latest now, the server that leads closes, and tells."""
        alert, self._alert, self._since_us = self._alert, None, None
        if alert is None:
            await self._tell()
            return
        self._untold = []
        if self._is_written or await self._write(partial(_open, alert)):
            return
        words = f"over, after {duration((now_us - alert.opened_us) // SECOND_US)}: {alert.words}"
        self._untold = self._deliveries(alert, words, now_us, is_over=True)
        await self._tell()

    def _deliveries(self, alert: Alert, words: str, now_us: int, *, is_over: bool) -> list[Delivery]:
        fact = Fact(
            kind=NoticeKind.NO_LEADER,
            severity=alert.severity,
            subject=alert.subject,
            words=words,
            notice_id=alert.id,
            is_over=is_over,
        )
        muted_us = self._rules.of(AlertRule.NO_LEADER).muted_until_us or 0
        heard = [] if now_us < muted_us else [address.receiver for address in self._addresses.values()]
        return [
            Delivery(
                id=self._ids.new(DELIVERY_PREFIX),
                receiver=receiver.name,
                kind=fact.kind,
                severity=fact.severity,
                is_over=is_over,
                subject=fact.subject,
                words=words,
                notice_id=alert.id,
                made_us=now_us,
                next_us=now_us,
            )
            for receiver in receivers_of(fact, heard, self._state.noticed)
        ]

    async def _tell(self) -> None:
        """Receivers do not wait for each other."""
        now_us = self._clock.now_us()
        ripe = [one for one in self._untold if one.next_us <= now_us]
        async with asyncio.TaskGroup() as tries:
            brought = [tries.create_task(self._bring(one)) for one in ripe]
        waiting = [one for one in self._untold if one.next_us > now_us]
        self._untold = waiting + [left for task in brought if (left := task.result()) is not None]

    async def _bring(self, one: Delivery) -> Delivery | None:
        """What is to be tried again; None = nothing."""
        error = await handed_over(
            self._addresses[one.receiver], Letter(key=one.id, user=None, email=None, notices=(one,))
        )
        now_us, tries = self._clock.now_us(), one.tries + 1
        if error is None:
            sent = replace(one, state=DeliveryState.SENT, tries=tries, ended_us=now_us)
            await self._write(partial(_put, sent))
        if error is None or error.is_final or backoff.is_over(one.made_us, now_us=now_us):
            return None
        return replace(one, tries=tries, next_us=now_us + backoff.wait_us(tries))

    async def _write(self, change: Callable[[Draft], object]) -> bool:
        """Whether the database took it."""
        try:
            await self._journal.transact(change, actor=ACTOR)
        except (StoreUnavailable, Unavailable) as error:
            log.warning("that nobody leads could not be written down: %s", error)
            return False
        return True


def _open(alert: Alert, draft: Draft) -> None:
    """Once, also where a try that failed was written all the same."""
    if draft.notice(Alert, alert.id) is None:
        draft.put(alert, "opened")


def _put(sent: Delivery, draft: Draft) -> None:
    draft.put(sent, "sent")
