"""Weekly advice: once a week, writes an event for each owner whose commands need less than their sessions requested.

The notifier makes the notice of the event. The event also records the week, so that the next leader does not repeat it.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from aliquot.service.alerts.context import AlertContext
from aliquot.service.alerts.routing import NoticeContent, Receiver, receivers_of
from aliquot.service.ports import StoreUnavailable
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.observed_gpus import week_of
from aliquot.service.views.terms import moment
from aliquot_schema.alerts import NoticeKind, Severity
from aliquot_schema.ids import UserId
from aliquot_schema.orchestration import Action

log: Final = logging.getLogger("aliquot.notices")
ACTOR: Final = "system:advice"
ADVISED: Final = "right_size_advised"
EVERY_S: Final = 900.0
BEGINS: Final = (0, 8)
"""Weekday from Monday = 0, and hour UTC, from which on the advice of a week is sent."""
WORDS_MAX: Final = 2_000
"""Characters of the advice in a notice."""


class Advisor(Protocol):
    """Right-size advice of users."""

    async def weekly(self, user: UserId) -> Sequence[str]:
        """A sentence for each command that ended in the last week. Raises `StoreUnavailable`."""


def advice_fact(action: Action, *, notice_id: str) -> NoticeContent:
    """What the notifier makes of the event."""
    user = UserId(action.facts["user"])
    words = f"what your commands needed in the last weeks: {action.facts['words']}"
    return _fact(user, words, notice_id=notice_id)


def _fact(user: UserId, words: str, *, notice_id: str = "") -> NoticeContent:
    return NoticeContent(
        kind=NoticeKind.RIGHT_SIZE,
        severity=Severity.INFO,
        subject=user,
        words=words,
        notice_id=notice_id,
        user=user,
    )


def _words(found: Sequence[str]) -> str:
    """The advice for the first commands, as many as fit without cutting a sentence."""
    shown = next(count for count in range(len(found), 0, -1) if count == 1 or len(" ".join(found[:count])) <= WORDS_MAX)
    rest = len(found) - shown
    more = [f"{rest} more: see `aliquot session stats`."] if rest else []
    return " ".join((*found[:shown], *more))


class WeeklyAdvice:
    """Runs on the leader."""

    def __init__(self, context: AlertContext, *, advisor: Advisor, receivers: Sequence[Receiver]) -> None:
        self._state, self._journal, self._clock = context.state, context.journal, context.clock
        self._advisor = advisor
        self._receivers = receivers

    async def run(self) -> None:
        """Look every quarter of an hour until canceled."""
        while True:
            await self._clock.sleep(EVERY_S)
            try:
                await self.run_once()
            except StoreUnavailable as error:
                log.warning("weekly advice waits for the database: %s", error)

    async def run_once(self) -> int:
        """Write the advice that is due; returns for how many owners.

        Raises:
            StoreUnavailable: ended sessions cannot be read; owners already advised are not advised again.
        """
        now = moment(self._clock.now_us())
        if (now.weekday(), now.hour) < BEGINS:
            return 0
        week, written = week_of(now), 0
        for user in self._due(week):
            found = await self._advisor.weekly(user)
            if found:
                facts = {"user": user, "week": week, "words": _words(found)}
                await self._write(Action(id=f"right_size/{user}", facts=facts))
                written += 1
            await asyncio.sleep(0)
        return written

    def _due(self, week: str) -> list[UserId]:
        """Owners that want the notice and have not had it this week."""
        found = []
        for user in {session.owner for session in self._state.sessions.values()}:
            known = self._state.actions.get(f"right_size/{user}")
            has_had = known is not None and known.facts.get("week") == week
            wanted = receivers_of(_fact(user, ""), self._receivers, self._state.alert_index)
            if not has_had and not self._state.people.is_disabled(user) and any(True for _ in wanted):
                found.append(user)
        return sorted(found)

    async def _write(self, action: Action) -> None:
        def change(draft: UnitOfWork) -> None:
            known = draft.action(action.id)
            if known is None or known.facts.get("week") != action.facts["week"]:
                draft.put(action, ADVISED)

        await self._journal.persist(change, actor=ACTOR)
