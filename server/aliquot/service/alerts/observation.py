"""Observation: adds up who uses which GPU, and sends a report of each week to operators.

Runs on the leader of a server in the mode `observe` or `advise`. Sums are recorded every quarter of an hour.
"""

import json
import logging
from typing import Final

from aliquot.core.observed_use import ObservedWeek
from aliquot.service.alerts.routing import NoticeContent
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.observed_gpus import (
    WEEK_PREFIX,
    observed_week,
    recorded_week,
    seen_gpus,
    week_of,
    would_lose,
)
from aliquot.service.views.terms import moment
from aliquot_schema.alerts import NoticeKind, Severity
from aliquot_schema.orchestration import Action
from aliquot_schema.resources.units import percent_text
from aliquot_schema.views.observation import ObservedWeekView

log: Final = logging.getLogger("aliquot.observation")
ACTOR: Final = "system:observation"
EVERY_S: Final = 60.0
RECORDED_US: Final = 900_000_000
WEEK_US: Final = 7 * 86_400_000_000
NAMED_MAX: Final = 10
REPORTED: Final = "observed_reported"
REPORT_ID: Final = "observed_report"


def report_fact(action: Action, *, notice_id: str) -> NoticeContent:
    """What the notifier makes of a weekly report: a notice to operators."""
    return NoticeContent(
        kind=NoticeKind.WEEKLY_REPORT,
        severity=Severity.INFO,
        subject=action.facts["week"],
        words=action.facts["words"],
        notice_id=notice_id,
    )


def report_words(week: ObservedWeekView, *, lose: int) -> str:
    """The report of a week in one paragraph.

    Args:
        lose: how many sessions would lose unused GPUs now, when the week is over.
    """
    used_pct = 100 * week.used_hours / week.gpu_hours if week.gpu_hours else 0
    idle_pct = 100 * week.idle_hours / week.used_hours if week.used_hours else 0
    people = "; ".join(
        f"{one.user} {one.gpu_hours:.1f} GPU-hours, {one.idle_hours:.1f} of them unused"
        for one in week.people[:NAMED_MAX]
    )
    more = f"; {len(week.people) - NAMED_MAX} more" if len(week.people) > NAMED_MAX else ""
    fair = f" An equal part would be {week.people[0].fair_hours:.1f} GPU-hours." if week.people else ""
    would = "" if not lose else f" {lose} {'session' if lose == 1 else 'sessions'} would lose unused GPUs now."
    return (
        f"GPUs in week {week.week}: {percent_text(used_pct)} of {week.gpu_hours:.1f} GPU-hours were taken, "
        f"{percent_text(idle_pct)} of that without use. {people}{more}.{fair}{would} "
        f"`aliquot report --week {week.week} --html FILE` has all of it"
    )


class Observation:
    """Runs on the leader."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self._looked_us: int | None = None
        self._recorded_us: int | None = None
        self._week: tuple[str, ObservedWeek] | None = None

    async def run(self) -> None:
        """Look every minute until canceled."""
        while True:
            await self._clock.sleep(EVERY_S)
            try:
                await self.run_once()
            except (NotLeader, StoreUnavailable):
                raise
            except Exception:
                log.exception("GPUs could not be observed; next attempt in %g s", EVERY_S)

    async def run_once(self) -> bool:
        """Look once; returns whether the sums were recorded."""
        now_us = self._clock.now_us()
        name = week_of(moment(now_us))
        since_ms = 0 if self._looked_us is None else (now_us - self._looked_us) // 1000
        self._looked_us = now_us
        has_ended = self._week is not None and self._week[0] != name
        if has_ended:
            assert self._week is not None
            await self._record(*self._week)
            await self._report(self._week[0])
        if self._week is None:
            await self._report(week_of(moment(now_us - WEEK_US)))  # it may have ended while no server measured
        if self._week is None or has_ended:
            self._week = name, recorded_week(self._state, name) or ObservedWeek()
        self._week = name, self._week[1].after(seen_gpus(self._state), since_ms=since_ms)
        if self._recorded_us is not None and now_us - self._recorded_us < RECORDED_US and not has_ended:
            return has_ended
        self._recorded_us = now_us
        await self._record(*self._week)
        return True

    async def _record(self, name: str, week: ObservedWeek) -> None:
        facts = {"week": name, "use": json.dumps(week.as_facts(), sort_keys=True)}
        action = Action(id=f"{WEEK_PREFIX}{name}", facts=facts)
        await self._journal.persist(lambda draft: draft.put(action, "observed"), actor=ACTOR)

    async def _report(self, name: str) -> None:
        """Write the event of a week's report, once."""
        found = observed_week(self._state, name, now=moment(self._clock.now_us()))
        if found is None or not found.people:
            return
        action = Action(
            id=REPORT_ID, facts={"week": name, "words": report_words(found, lose=len(would_lose(self._state)))}
        )

        def change(draft: UnitOfWork) -> None:
            known = draft.action(REPORT_ID)
            if known is None or known.facts["week"] != name:
                draft.put(action, REPORTED)

        await self._journal.persist(change, actor=ACTOR)
