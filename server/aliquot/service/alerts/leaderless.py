"""Leaderless alerts: a follower reports that no server leads, because no leader can."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from aliquot.service.alerts import outbox
from aliquot.service.alerts.context import AlertContext
from aliquot.service.alerts.message_texts import SECOND_US, Message, duration, printable
from aliquot.service.alerts.outbox import Address, attempt_delivery
from aliquot.service.alerts.routing import NoticeContent, receivers_of
from aliquot.service.alerts.rules import Rules
from aliquot.service.ports import StoreUnavailable
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.alerts import ALERT_PREFIX, DELIVERY_PREFIX, Alert, AlertRule, Delivery, DeliveryState, NoticeKind
from aliquot_schema.errors import Unavailable

log: Final = logging.getLogger("aliquot.notices")

INTERVAL_S: Final = 5.0
ACTOR: Final = "system:lookout"


class LeaderlessAlerts:
    """Sends the notice itself and records it once the database answers. Several followers may report it, each of
    them once."""

    def __init__(
        self,
        context: AlertContext,
        *,
        rules: Rules,
        addresses: Mapping[str, Address],
        address: str,
        why: Callable[[], str | None],
    ) -> None:
        """
        Args:
            address: address of this server.
            why: the reason why no server leads, as this server sees it; None while a server leads.
        """
        self._state, self._journal, self._clock, self._ids = context.state, context.journal, context.clock, context.ids
        self._rules, self._addresses, self._address, self._why = rules, addresses, address, why
        self._since_us: int | None = None
        self._alert: Alert | None = None
        """The open alert of this server."""
        self._is_written = False
        self._unsent: list[Delivery] = []
        """Deliveries to send or retry."""

    async def run(self) -> None:
        """Check every 5 seconds until canceled."""
        while True:
            try:
                await self.run_once()
            except Exception:
                log.exception("the check for a leader failed; next attempt in %g s", INTERVAL_S)
            await self._clock.sleep(INTERVAL_S)

    async def run_once(self) -> None:
        """Check once, and retry messages that could not be sent."""
        why, now_us = self._why(), self._clock.now_us()
        rule = self._rules.of(AlertRule.NO_LEADER)
        if why is None:
            await self._end(now_us)
            return
        self._since_us = now_us if self._since_us is None else self._since_us
        if self._alert is None and rule.is_on and now_us - self._since_us >= rule.for_s * SECOND_US:
            await self._begin(why, now_us)
        elif self._alert is not None:
            await self._send_due()

    async def _begin(self, why: str, now_us: int) -> None:
        alert = self._alert = Alert(
            id=self._ids.new(ALERT_PREFIX),
            rule=AlertRule.NO_LEADER,
            subject=self._address,
            severity=self._rules.of(AlertRule.NO_LEADER).severity,
            words=printable(f"no server is leading, as seen by {self._address}: {why}"),
            opened_us=now_us,
            told_us=now_us,
        )
        log.error("%s", alert.words)
        self._unsent = self._deliveries(alert, alert.words, now_us, is_over=False)
        # In parallel: the notice must not wait for the time-out of a database that does not answer.
        async with asyncio.TaskGroup() as works:
            writing = works.create_task(self._write(partial(_open, alert)))
            works.create_task(self._send_due())
        self._is_written = writing.result()

    async def _end(self, now_us: int) -> None:
        """An alert in the event log is closed and reported by the next leader; write it now if it is not there yet."""
        alert, self._alert, self._since_us = self._alert, None, None
        if alert is None:
            await self._send_due()
            return
        self._unsent = []
        if self._is_written or await self._write(partial(_open, alert)):
            return
        words = f"over, after {duration((now_us - alert.opened_us) // SECOND_US)}: {alert.words}"
        self._unsent = self._deliveries(alert, words, now_us, is_over=True)
        await self._send_due()

    def _deliveries(self, alert: Alert, words: str, now_us: int, *, is_over: bool) -> list[Delivery]:
        fact = NoticeContent(
            kind=NoticeKind.NO_LEADER,
            severity=alert.severity,
            subject=alert.subject,
            words=words,
            notice_id=alert.id,
            is_over=is_over,
        )
        muted_us = self._rules.of(AlertRule.NO_LEADER).muted_until_us or 0
        receivers = [] if now_us < muted_us else [address.receiver for address in self._addresses.values()]
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
            for receiver in receivers_of(fact, receivers, self._state.alert_index)
        ]

    async def _send_due(self) -> None:
        """Send to all receivers whose next attempt is due, in parallel."""
        now_us = self._clock.now_us()
        ready = [one for one in self._unsent if one.next_us <= now_us]
        async with asyncio.TaskGroup() as group:
            attempts = [group.create_task(self._attempt(one)) for one in ready]
        waiting = [one for one in self._unsent if one.next_us > now_us]
        self._unsent = waiting + [left for task in attempts if (left := task.result()) is not None]

    async def _attempt(self, one: Delivery) -> Delivery | None:
        """One attempt; returns the delivery to retry, or None."""
        error = await attempt_delivery(
            self._addresses[one.receiver], Message(key=one.id, user=None, email=None, notices=(one,))
        )
        now_us, tries = self._clock.now_us(), one.tries + 1
        if error is None:
            sent = replace(one, state=DeliveryState.SENT, tries=tries, ended_us=now_us)
            await self._write(partial(_put, sent))
        if error is None or error.is_final or outbox.is_expired(one.made_us, now_us=now_us):
            return None
        return replace(one, tries=tries, next_us=now_us + outbox.backoff_us(tries))

    async def _write(self, change: Callable[[UnitOfWork], object]) -> bool:
        """Whether the database accepted it."""
        try:
            await self._journal.transact(change, actor=ACTOR)
        except (StoreUnavailable, Unavailable) as error:
            log.warning("the alert that no server leads could not be stored: %s", error)
            return False
        return True


def _open(alert: Alert, draft: UnitOfWork) -> None:
    """Idempotent: an attempt that was reported as failed may have been committed."""
    if draft.notice(Alert, alert.id) is None:
        draft.put(alert, "opened")


def _put(sent: Delivery, draft: UnitOfWork) -> None:
    draft.put(sent, "sent")
