"""Explanations: why a session waits, which sessions are ahead of it, and the changes with which it would start.

They are computed on request, in a worker thread, and kept until the state changes. Changes that would not let it start
now are forecast by the forecast process, on request too: the first answer says that they are not known yet.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.changes import AllowedChanges, WaitingSession
from aliquot.core.foresight.forecast import HypotheticalSession
from aliquot.core.foresight.remedies import Remedies, Remedy, starts
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.quota import counted_as, counted_in, is_beyond, quota_ids_for
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot.service.access import check_may_change, check_may_release
from aliquot.service.ports import Clock
from aliquot.service.sessions.submission_checks import check_moved
from aliquot.service.state.forecast_board import QuestionQueue
from aliquot.service.state.projects import known_projects
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.views.remedies import OtherSessions, remedy_view, waits_now
from aliquot.service.views.sessions import verdict_view
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.errors import Forbidden, QuotaExceeded, Unavailable
from aliquot_schema.ids import ProjectId, QuotaId, SessionId, SlotName
from aliquot_schema.reasons import OUT_OF_LINE, Reason, Verdict
from aliquot_schema.requests import Caller, Role
from aliquot_schema.sessions import DEFAULT_PROJECT, Priority, Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.explanations import ExplanationView, RemedyView

SEED: Final = 0
AGAIN_US: Final = 60_000_000
"""Forecasts of changes that are older are asked for again; until the answer they are shown."""
SOONER_US: Final = 60_000_000
"""Changes that let a session start earlier by less than this are not shown."""
AHEAD_MAX: Final = 10
"""Sessions ahead that are described."""
IN_THE_WAY_MAX: Final = 16
KEPT_MAX: Final = 256
"""Explanations kept."""
KEPT_US: Final = 30_000_000
"""An explanation is not kept longer than this: reservations come nearer without any event."""


class _ChangeQuestion(Struct, frozen=True, kw_only=True):
    """How much earlier would a session start with each of some changes?"""

    row: PendingRow
    """The session as it is."""
    changed: tuple[PendingRow, ...]
    """The session as it would be."""
    run_times: Mapping[Workload, RunTimes]
    """Of the changed ones; missing ones are unknown."""


class _Asked(Struct, frozen=True, kw_only=True):
    """A question that was asked."""

    question: _ChangeQuestion
    at_us: int
    starts_us: asyncio.Task[tuple[int | None, ...]]
    """P50 of the start as it is, then with each change; None = unknown."""
    before: "_Asked | None"
    """The one before it about the same session, whose answer is shown until this one has one."""


class _Explained(Struct, frozen=True, kw_only=True):
    """An explanation, and what may be added to it."""

    revision: int
    at_us: int
    view: ExplanationView
    question: _ChangeQuestion | None = None
    """About changes that would not let it start now; None = there are none."""
    changes: tuple[RemedyView, ...] = ()
    """The changes of the question; when it would start is not known."""


class _Key(Struct, frozen=True):
    """What an explanation depends on, besides the state."""

    session_id: SessionId
    means: AllowedChanges
    is_operator: bool


class Explanations:
    """Explains waiting sessions on the current state; changes nothing."""

    def __init__(self, *, state: State, clock: Clock, questions: QuestionQueue) -> None:
        self._state = state
        self._clock = clock
        self._questions = questions
        self._cache = PassCache()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="explanation")
        self._kept: OrderedDict[_Key, _Explained] = OrderedDict()
        self._asked: OrderedDict[SessionId, _Asked] = OrderedDict()
        self._turn = asyncio.Lock()

    async def explain(self, caller: Caller, session_id: str) -> ExplanationView | None:
        """Why a session waits, and what would help, as far as this caller may do it; None if it is not in memory."""
        session = self._state.sessions.get(SessionId(session_id))
        if session is None:
            return None
        key = _Key(session.id, means_of(self._state, caller, session), caller.role >= Role.OPERATOR)
        async with self._turn:  # others who ask for the same find it kept
            known = self._kept.get(key)
            revision, now_us = self._state.revision, self._clock.now_us()
            if known is None or known.revision != revision or now_us - known.at_us >= KEPT_US:
                known = self._kept[key] = await self._computed(session, key, now_us=now_us)
                self._kept.move_to_end(key)
                while len(self._kept) > KEPT_MAX:
                    self._kept.popitem(last=False)
            return self._with_forecasts(known, now_us=now_us)

    def close(self) -> None:
        """Stop the worker thread, and wait for no more forecasts."""
        for asked in self._asked.values():
            asked.starts_us.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _with_forecasts(self, known: _Explained, *, now_us: int) -> ExplanationView:
        """The explanation with the changes that were forecast; asks for forecasts that are missing or old."""
        question = known.question
        if question is None or not self._questions.is_served:
            return known.view
        asked: _Asked | None = self._ask(question, now_us=now_us)
        while asked is not None and not asked.starts_us.done():
            asked = asked.before
        if asked is None:
            return replace(known.view, is_forecasting=True)
        (before_us, *changed_us), sooner = asked.starts_us.result() or (None,), list[RemedyView]()
        for view, row in zip(known.changes, question.changed, strict=True):
            answers = zip(asked.question.changed, changed_us, strict=False)
            after_us = next((start_us for changed, start_us in answers if changed == row), None)
            if before_us is not None and after_us is not None and before_us - after_us >= SOONER_US:
                sooner.append(replace(view, starts_at=moment(after_us), p50_earlier=(before_us - after_us) / 1e6))
        best = {view.kind: view for view in sorted(sooner, key=lambda view: view.p50_earlier or 0.0)}
        if not best:
            return known.view
        return replace(
            known.view,
            remedies=(*known.view.remedies, *sorted(best.values(), key=lambda view: view.starts_at)),
        )

    def _ask(self, question: _ChangeQuestion, *, now_us: int) -> _Asked:
        """The present forecasts of changes; asked for if there are none, or those known are old or of other changes."""
        name = question.row.session_id
        known = self._asked.get(name)
        if known is not None and known.question.row != question.row:
            known.starts_us.cancel()
            known = None
        if known is not None:
            is_old = now_us - known.at_us >= AGAIN_US or not set(question.changed) <= set(known.question.changed)
            if not (known.starts_us.done() and is_old):
                return known
            known = replace(known, before=None)
        task = asyncio.create_task(self._starts_us(question), name=f"forecast of changes of {name}")
        asked = self._asked[name] = _Asked(question=question, at_us=now_us, starts_us=task, before=known)
        self._asked.move_to_end(name)
        while len(self._asked) > KEPT_MAX:
            self._asked.popitem(last=False)[1].starts_us.cancel()
        return asked

    async def _starts_us(self, question: _ChangeQuestion) -> tuple[int | None, ...]:
        """P50 of the start as it is, then with each change; empty if it cannot be forecast now."""
        sessions = [
            HypotheticalSession(
                row=row, run_times=None if row.workload is None else question.run_times.get(row.workload)
            )
            for row in (question.row, *question.changed)
        ]
        try:
            forecasts = await self._questions.ask(sessions)
        except Unavailable:
            return ()
        bands = [None if one is None else one.forecast.start_us for one in forecasts]
        return tuple(None if band is None else band.p50 for band in bands)

    async def _computed(self, session: Session, key: _Key, *, now_us: int) -> _Explained:
        snapshot, rules = take(self._state), self._state.rules
        row = self._state.pending.get(session.id)
        revision = snapshot.revision
        if row is None or self._state.orchestration.is_stopped:
            view = self._without_plan(session, revision=revision, now_us=now_us)
            return _Explained(revision=revision, at_us=now_us, view=view)
        run = asyncio.get_running_loop().run_in_executor

        def prepare() -> Remedies:
            plan = decide(snapshot, rules, now_us=now_us, seed=SEED, known=self._cache)
            scene = WaitingSession(row=row, snapshot=snapshot, policy=rules, now_us=now_us, plan=plan, means=key.means)
            return Remedies(scene, seed=SEED, cache=self._cache)

        search = await run(self._worker, prepare)
        predicted = {workload: self._state.forecasts.like(workload) for workload in search.workloads()}
        run_times = {workload: found.run_times for workload, found in predicted.items() if found is not None}
        remedies = await run(self._worker, search.found, run_times)
        view = self._view(search.scene, remedies, is_operator=key.is_operator)
        changes = search.without_effect_now(remedies)
        if not changes:
            return _Explained(revision=revision, at_us=now_us, view=view)
        others = OtherSessions(self._state, snapshot, search.scene.plan, now_us=now_us)
        later = [Remedy(change=change, starts_us=now_us + 1, kernels=()) for change in changes]
        return _Explained(
            revision=revision,
            at_us=now_us,
            view=view,
            question=_ChangeQuestion(row=row, changed=tuple(change.row for change in changes), run_times=run_times),
            changes=self._remedy_views(later, search.scene, others, is_operator=key.is_operator),
        )

    def _without_plan(self, session: Session, *, revision: int, now_us: int) -> ExplanationView:
        """Of a session that does not wait, or while scheduling is stopped."""
        is_stopped = session.state is SessionState.QUEUED and self._state.orchestration.is_stopped
        return ExplanationView(
            session_id=session.id,
            revision=revision,
            at=moment(now_us),
            waits=verdict_view(Verdict(reason=Reason.STOPPED)) if is_stopped else None,
            position=self._state.position(session.id),
            ahead=(),
            in_the_way=(),
            expected_start=None,
            remedies=(),
        )

    def _view(self, scene: WaitingSession, remedies: Iterable[Remedy], *, is_operator: bool) -> ExplanationView:
        plan, row, now_us = scene.plan, scene.row, scene.now_us
        others = OtherSessions(self._state, scene.snapshot, plan, now_us=now_us)
        verdict = None if starts(plan, row.session_id) else plan.verdicts.get(row.session_id)
        line = [name for name, other in plan.verdicts.items() if other.reason not in OUT_OF_LINE]
        is_in_line = verdict is not None and verdict.reason not in OUT_OF_LINE
        position = line.index(row.session_id) + 1 if is_in_line else None
        waits = None
        if verdict is not None:
            waits = waits_now(self._state, verdict, scene.snapshot, name=row.session_id, now_us=now_us)
        expected_us = plan.promised_us().get(row.session_id)
        if verdict is not None and verdict.reason is Reason.MAKING_ROOM:
            expected_us = verdict.evidence.until_us
        return ExplanationView(
            session_id=row.session_id,
            revision=scene.snapshot.revision,
            at=moment(now_us),
            waits=waits,
            position=position,
            ahead=others.views(line[: min((position or 1) - 1, AHEAD_MAX)]),
            in_the_way=() if verdict is None else others.views(in_the_way(verdict, scene.snapshot, now_us=now_us)),
            expected_start=None if verdict is None else moment_or_none(expected_us),
            remedies=self._remedy_views(remedies, scene, others, is_operator=is_operator),
        )

    def _remedy_views(
        self, remedies: Iterable[Remedy], scene: WaitingSession, others: OtherSessions, *, is_operator: bool
    ) -> tuple[RemedyView, ...]:
        known = self._state.slots_in_use()
        return tuple(remedy_view(remedy, scene, others, is_operator=is_operator, known=known) for remedy in remedies)


def means_of(state: State, caller: Caller, session: Session) -> AllowedChanges:
    """What a caller may do with a waiting session."""
    is_operator = caller.role >= Role.OPERATOR
    return AllowedChanges(
        may_change=_may(check_may_change, caller, session),
        may_release=_may(partial(check_may_release, users=state.people.users), caller, session),
        projects=tuple(_projects(state, caller, session)),
        priority_max=Priority.CRITICAL if is_operator else state.policy.user_priority_max,
    )


def _may(check: Callable[[Caller, Session], None], caller: Caller, session: Session) -> bool:
    try:
        check(caller, session)
    except Forbidden:
        return False
    return True


def _projects(state: State, caller: Caller, session: Session) -> Iterator[ProjectId]:
    """Projects of the owner that the caller may move the session to, and that take one more waiting session."""
    owner = state.people.users.get(session.owner)
    if caller.user == session.owner:
        own = caller.projects
    elif caller.role >= Role.OPERATOR and owner is not None:
        own = owner.projects
    else:
        return
    known = {DEFAULT_PROJECT, *known_projects(state)}
    for project in dict.fromkeys((*own, DEFAULT_PROJECT)):
        if project in known and project != session.project:
            try:
                check_moved(state, replace(session, project=project))
            except QuotaExceeded:
                continue
            yield project


def in_the_way(verdict: Verdict, snapshot: Snapshot, *, now_us: int) -> list[SessionId]:
    """Sessions that a verdict waits for; under a full quota, those that hold what it limits, the next to end first."""
    evidence = verdict.evidence
    if evidence.blocked_by or evidence.quota is None or evidence.slot is None or is_beyond(evidence):
        return list(evidence.blocked_by)
    quota, slot = QuotaId(evidence.quota), counted_as(SlotName(evidence.slot))
    under = [row for row in snapshot.running if quota in quota_ids_for(row.owner, row.project)]
    held = [row for row in under if counted_in(row.kernels).get(slot)]
    held.sort(key=lambda row: (expected_end_us(row, now_us=now_us), row.session_id))
    return [row.session_id for row in islice(held, IN_THE_WAY_MAX)]
