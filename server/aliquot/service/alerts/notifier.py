"""Notifier: reads the event log and queues deliveries, together with the cursor, in one commit.

Each event is therefore queued exactly once. Events older than 24 hours are skipped.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from msgspec.structs import replace

from aliquot.service.alerts.context import AlertContext
from aliquot.service.alerts.idle_process import idle_fact
from aliquot.service.alerts.message_texts import SECOND_US, duration, printable
from aliquot.service.alerts.observation import REPORTED, report_fact
from aliquot.service.alerts.routing import NoticeContent, Receiver, due_us, receivers_of
from aliquot.service.alerts.rules import Rules
from aliquot.service.alerts.weekly_advice import ADVISED, advice_fact
from aliquot.service.ports import StoreUnavailable
from aliquot.service.state.journal import Feed
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.alerts import (
    DELIVERY_PREFIX,
    MARK_ID,
    OWNERS_HEAR,
    Alert,
    AlertRule,
    Delivery,
    NoticeKind,
    NoticeMark,
    Severity,
)
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event
from aliquot_schema.orchestration import Action
from aliquot_schema.sessions import PreemptionCause, Session
from aliquot_schema.views.session_parts import session_label

SEARCH_EVENTS_MAX: Final = 10_000
"""Search intervals of at most this many events are read one after another."""

_WITHOUT_END: Final = frozenset({AlertRule.LEADER_CHANGED, AlertRule.CLOCK_CORRECTED})
"""Rules whose end is not reported."""
_CAUSES: Final = {
    PreemptionCause.PRIORITY: "for a session of a higher priority",
    PreemptionCause.ORDER: "for a session that comes before it",
    PreemptionCause.QUOTA: "for the owner of the quota that it ran on",
    PreemptionCause.DRAIN: "because its agent is drained",
    PreemptionCause.EVICTION: "because its node is about to be taken away",
    PreemptionCause.DEVICE: "because one of its devices is gone or has a hardware fault",
    PreemptionCause.BOOKING: "because its devices are booked",
    PreemptionCause.IDLE: "because it did not use its GPUs",
    PreemptionCause.GROW: "to start again with more kernels",
}
log: Final = logging.getLogger("aliquot.notices")
ACTOR: Final = "system:notices"
MARK_EVERY: Final = 1000
"""Events after which the cursor is stored even when nothing was queued."""
BATCH_EVENTS: Final = 200
"""Events processed per commit."""
OLD_US: Final = 24 * 3600 * 1_000_000
"""Older events are not reported."""
RETRY_S: Final = 5.0
"""Seconds until the log is read again after an error."""


class EventSource(Protocol):
    """The part of `Feed` that the search needs."""

    revision: int

    async def page(self, after: int) -> Sequence[Event]: ...


async def first_recent(log: EventSource, *, after: int, since_us: int) -> int:
    """A revision at or after `after` from which on no event since `since_us` is missed. Binary search, so that a log
    of years is not read."""
    low, high = after, log.revision
    while high - low > SEARCH_EVENTS_MAX:
        middle = (low + high) // 2
        if await _is_before(log, middle, since_us=since_us):
            low = middle
        else:
            high = middle
    return low


async def _is_before(log: EventSource, number: int, *, since_us: int) -> bool:
    try:
        events = await log.page(number)
    except InvalidRequest:
        return True  # retention removed it
    return bool(events) and events[0].at_us < since_us


def facts_of(event: Event, rules: Rules) -> Iterator[NoticeContent]:
    """The facts that an event is reported as; most events yield none."""
    match event.kind, event.record:
        case ("alert.opened" | "alert.reminded" | "alert.closed") as kind, Alert() as alert:
            yield from _alert_facts(alert, rules, at_us=event.at_us, is_reminder=kind == "alert.reminded")
        case (("session.failed" | "session.completed" | "session.preempting"), Session() as session):
            if session.array_id is None and not session.is_external_allocation:
                yield _session_fact(session, notice_id=f"event:{event.number}")
        case (kind, Action() as action) if kind == f"action.{ADVISED}":
            yield advice_fact(action, notice_id=f"event:{event.number}")
        case (kind, Action() as action) if kind == f"action.{REPORTED}":
            yield report_fact(action, notice_id=f"event:{event.number}")
        case (kind, Action() as action) if kind.startswith("action.idle_"):
            fact = idle_fact(action, notice_id=f"event:{event.number}")
            if fact is not None:
                yield fact


def _alert_facts(alert: Alert, rules: Rules, *, at_us: int, is_reminder: bool) -> Iterator[NoticeContent]:
    rule, is_over = AlertRule(alert.rule), alert.closed_us is not None
    muted_until_us = rules.of(rule).muted_until_us
    if rule is AlertRule.NO_LEADER and not is_over:
        return  # the follower that opened it has sent it: see `LeaderlessAlerts`
    if (muted_until_us is not None and at_us < muted_until_us) or (is_over and rule in _WITHOUT_END):
        return
    words = alert.words
    held = duration((at_us - alert.opened_us) // SECOND_US)
    if is_over:
        words = f"over, after {held}: {words}"
    elif is_reminder:
        words = f"still open after {held}: {words}"
    kind = NoticeKind(rule.value)
    is_told_once = rule is AlertRule.EXTERNAL_PROCESS and (is_over or is_reminder)
    for user in (None, *(alert.owners if kind in OWNERS_HEAR and not is_told_once else ())):
        yield NoticeContent(
            kind=kind,
            severity=alert.severity,
            subject=alert.subject,
            words=words,
            notice_id=alert.id,
            user=user,
            is_over=is_over,
        )


def _session_fact(session: Session, *, notice_id: str) -> NoticeContent:
    kind, severity, words = _described(session)
    return NoticeContent(
        kind=kind, severity=severity, subject=session.id, words=words, notice_id=notice_id, user=session.owner
    )


def _described(session: Session) -> tuple[NoticeKind, Severity, str]:
    name = session_label(session)
    if session.ended_us is None:
        return NoticeKind.SESSION_PREEMPTED, Severity.INFO, f"{name} is being preempted{_cause(session)}"
    if session.failure is None:
        return NoticeKind.SESSION_COMPLETED, Severity.INFO, f"{name} has completed{_ran(session)}"
    names_code = session.failure.code == "exit_code"
    ended = f" (exit code {session.exit_code})" if session.exit_code and not names_code else ""
    words = f"{name} has failed{_ran(session)}: {session.failure.message}{ended}"
    tries = session.spec.max_retries
    if tries and session.retries >= tries:
        return NoticeKind.RETRIES_SPENT, Severity.WARNING, f"{words}; all {tries} retries are used"
    return NoticeKind.SESSION_FAILED, Severity.WARNING, words


def _cause(session: Session) -> str:
    receipt = session.preemption
    if receipt is None:
        return ""
    by = f" ({receipt.by_session} of {receipt.by_user})" if receipt.by_session else ""
    return f", {_CAUSES[receipt.cause]}{by}; it is stopped at the end of its grace period and queued again"


def _ran(session: Session) -> str:
    if session.started_us is None or session.ended_us is None:
        return ""
    return f" after {duration((session.ended_us - session.started_us) // SECOND_US)}"


class Notifier:
    """Runs on the leader. The next leader continues at the stored cursor."""

    def __init__(
        self, context: AlertContext, *, feed: Feed, rules: Rules, receivers: Sequence[Receiver], address: str = ""
    ) -> None:
        """`address` of the dashboard, for links."""
        self._state, self._journal, self._clock, self._ids = context.state, context.journal, context.clock, context.ids
        self._feed = feed
        self._rules = rules
        self._receivers = receivers
        self._address = address
        self._seen = 0
        """The last processed event."""

    async def run(self) -> None:
        """Follow the log until canceled."""
        while True:
            try:
                processed = await self.run_once()
            except StoreUnavailable as error:
                log.warning(
                    "the event log cannot be read, notices are delayed; next attempt in %g s: %s", RETRY_S, error
                )
                await self._clock.sleep(RETRY_S)
                continue
            if not processed:
                await self._feed.reached(self._feed.revision + 1)

    async def run_once(self) -> int:
        """Queue deliveries for the next events; returns how many events were processed. A new cluster starts at the
        current revision.

        Raises:
            StoreUnavailable: the log cannot be read; the cursor did not move.
        """
        if self._state.alert_index.mark is None:
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
                    found += self._shielded_deliveries(event)
                    seen = event.number
                    if event.number >= self._feed.revision or event.number - began >= BATCH_EVENTS:
                        break
        except InvalidRequest as error:
            log.warning("events were removed before notices of them were queued: %s", error.message)
            seen = self._feed.revision
        self._seen = seen
        if found or seen - self._mark >= MARK_EVERY:
            await self._write(found, number=seen)
        return seen - began

    @property
    def _mark(self) -> int:
        mark = self._state.alert_index.mark
        return 0 if mark is None else mark.number

    def _shielded_deliveries(self, event: Event) -> list[Delivery]:
        """An event that cannot be rendered does not block the ones after it."""
        try:
            return self._deliveries(event)
        except Exception:
            log.exception("no notice could be made of event %d", event.number)
            return []

    def _deliveries(self, event: Event) -> list[Delivery]:
        now_us = self._clock.now_us()
        if now_us - event.at_us > OLD_US:
            return []
        return [
            self._delivery(fact, receiver, now_us=now_us, at_us=event.at_us)
            for fact in facts_of(event, self._rules)
            if fact.user is None or not self._state.people.is_disabled(fact.user)
            for receiver in receivers_of(fact, self._receivers, self._state.alert_index)
        ]

    def _delivery(self, fact: NoticeContent, receiver: Receiver, *, now_us: int, at_us: int) -> Delivery:
        next_us, is_gathered = due_us(fact, receiver, now_us=now_us, at_us=at_us)
        return Delivery(
            id=self._ids.new(DELIVERY_PREFIX),
            receiver=receiver.name,
            kind=fact.kind,
            severity=fact.severity,
            is_over=fact.is_over,
            subject=fact.subject,
            words=printable(fact.words + self._link(fact)),
            user=fact.user,
            notice_id=fact.notice_id,
            is_gathered=is_gathered,
            made_us=now_us,
            next_us=next_us,
        )

    def _link(self, fact: NoticeContent) -> str:
        """Where the owner of an idle session answers. The page asks; following the link changes nothing."""
        if fact.kind is not NoticeKind.GPU_IDLE or fact.user is None or fact.is_over:
            return ""
        name = fact.subject
        commands = f"`aliquot session keep {name}` or `aliquot session give-back {name}`"
        page = f"{self._address}/sessions/{name}, or " if self._address else ""
        return f". Still needed, or give back: {page}{commands}"

    async def _write(self, deliveries: Sequence[Delivery], *, number: int) -> None:
        def change(draft: UnitOfWork) -> None:
            mark = draft.notice(NoticeMark, MARK_ID)
            if mark is not None and mark.number >= number:
                return  # an attempt that was reported as failed was committed
            for delivery in deliveries:
                draft.put(delivery, "queued")
            draft.put(replace(mark or NoticeMark(), number=number), "moved")

        await self._journal.persist(change, actor=ACTOR)
