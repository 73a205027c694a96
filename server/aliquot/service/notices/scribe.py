"""The scribe: follows the log, and writes down what has to be delivered, once, together with how far it has come."""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.feed import Feed
from aliquot.service.notices.catching_up import first_recent
from aliquot.service.notices.facts import facts_of
from aliquot.service.notices.receivers import Receiver
from aliquot.service.notices.room import Room
from aliquot.service.notices.routing import Fact, due_us, receivers_of
from aliquot.service.notices.rules import Rules
from aliquot.service.notices.terms import printable
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event
from aliquot_schema.notices import DELIVERY_PREFIX, MARK_ID, Delivery, NoticeMark

log: Final = logging.getLogger("aliquot.notices")

ACTOR: Final = "system:notices"
MARK_EVERY: Final = 1000
"""Events after which it is written how far the log was followed, also when there was nothing to tell."""
AT_ONCE: Final = 200
"""Events that are looked at before what they gave is written."""
OLD_US: Final = 24 * 3600 * 1_000_000
"""What happened so long ago is told to nobody any more."""
RETRY_S: Final = 5.0
"""When the log cannot be read."""


class Scribe:
    """Of the server that leads. What it wrote is in the outbox; whatever stops it, the next one goes on behind it."""

    def __init__(self, room: Room, *, feed: Feed, rules: Rules, receivers: Sequence[Receiver]) -> None:
        self._state, self._journal, self._clock, self._ids = room.state, room.journal, room.clock, room.ids
        self._feed = feed
        self._rules = rules
        self._receivers = receivers
        self._seen = 0
        """The last event that was looked at."""

    async def run(self) -> None:
        """Follow for ever."""
        while True:
            try:
                looked_at = await self.run_once()
            except StoreUnavailable as error:
                log.warning("what happened cannot be read now, and is told later: %s", error)
                await self._clock.sleep(RETRY_S)
                continue
            if not looked_at:
                await self._feed.reached(self._feed.revision + 1)

    async def run_once(self) -> int:
        """Write down what the next events give, and return how many events these were. The first of all begins with
        what happens from now on.

        Raises:
            StoreUnavailable: the log cannot be read; nothing of it counts as looked at.
        """
        if self._state.noticed.mark is None:
            await self._write((), number=self._feed.revision)
        if not self._seen:
            self._seen = await first_recent(self._feed, after=self._mark, since_us=self._clock.now_us() - OLD_US)
        began = seen = max(self._seen, self._mark)
        if began >= self._feed.revision:
            return 0
        found = list[Delivery]()
        try:
            async with aclosing(self._feed.follow(began)) as events:
                async for event in events:
                    found += self._told(event)
                    seen = event.number
                    if event.number >= self._feed.revision or event.number - began >= AT_ONCE:
                        break
        except InvalidRequest as error:
            log.warning("what happened meanwhile is told to nobody: %s", error.message)
            seen = self._feed.revision
        self._seen = seen
        if found or seen - self._mark >= MARK_EVERY:
            await self._write(found, number=seen)
        return seen - began

    @property
    def _mark(self) -> int:
        mark = self._state.noticed.mark
        return 0 if mark is None else mark.number

    def _told(self, event: Event) -> list[Delivery]:
        """Whatever is odd about one event keeps nobody from hearing of the next."""
        try:
            return self._deliveries(event)
        except Exception:
            log.exception("event %d could not be told of", event.number)
            return []

    def _deliveries(self, event: Event) -> list[Delivery]:
        now_us = self._clock.now_us()
        if now_us - event.at_us > OLD_US:
            return []
        return [
            self._delivery(fact, receiver, now_us=now_us, at_us=event.at_us)
            for fact in facts_of(event, self._rules)
            if fact.user is None or not self._state.people.is_shut_out(fact.user)
            for receiver in receivers_of(fact, self._receivers, self._state.noticed)
        ]

    def _delivery(self, fact: Fact, receiver: Receiver, *, now_us: int, at_us: int) -> Delivery:
        next_us, is_gathered = due_us(fact, receiver, now_us=now_us, at_us=at_us)
        return Delivery(
            id=self._ids.new(DELIVERY_PREFIX),
            receiver=receiver.name,
            kind=fact.kind,
            severity=fact.severity,
            is_over=fact.is_over,
            subject=fact.subject,
            words=printable(fact.words),
            user=fact.user,
            notice_id=fact.notice_id,
            is_gathered=is_gathered,
            made_us=now_us,
            next_us=next_us,
        )

    async def _write(self, deliveries: Sequence[Delivery], *, number: int) -> None:
        def change(draft: Draft) -> None:
            mark = draft.notice(NoticeMark, MARK_ID)
            if mark is not None and mark.number >= number:
                return  # a try that failed was written all the same
            for delivery in deliveries:
                draft.put(delivery, "queued")
            draft.put(replace(mark or NoticeMark(), number=number), "moved")

        await self._journal.persist(change, actor=ACTOR)
