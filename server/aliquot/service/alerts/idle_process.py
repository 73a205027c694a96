"""Idle process: takes the steps for sessions that do not use their GPUs, and records each with its evidence.

Runs on the leader, which has the readings. The decision of each step is `core.idle_process.next_case`; that of the
last one, which takes the GPUs away, is part of a scheduling pass.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from aliquot.core.idle_process import ACTS, IdleCase, IdleObservation, acts_us, next_case
from aliquot.service.alerts.routing import NoticeContent
from aliquot.service.lifecycle.idle_sessions import record
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.state.idle_cases import case_of
from aliquot.service.state.idle_devices import HeldDevice
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import allocated_gpus, moment
from aliquot_schema.alerts import NoticeKind, Severity
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.orchestration import Action
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.session_parts import session_label

log: Final = logging.getLogger("aliquot.idle")
ACTOR: Final = "system:idle"
EVERY_S: Final = 15.0
NOTICED: Final = frozenset({IdleStep.TOLD, IdleStep.TOLD_AGAIN, IdleStep.ACTED})
"""Steps that the owner is told of."""


def idle_fact(action: Action, *, notice_id: str) -> NoticeContent | None:
    """What the notifier makes of a step; None = the owner is not told."""
    case = case_of(action)
    if case.action is IdleAction.OBSERVE or case.step not in NOTICED:
        return None
    return NoticeContent(
        kind=NoticeKind.GPU_IDLE,
        severity=Severity.WARNING,
        subject=case.session_id,
        words=action.facts["words"],
        notice_id=notice_id,
        user=UserId(action.facts["owner"]),
        is_owed=True,
    )


class IdleProcess:
    """Runs on the leader."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock, wake: Callable[[], None]) -> None:
        """`wake` starts a scheduling pass."""
        self._state = state
        self._journal = journal
        self._clock = clock
        self._wake = wake

    async def run(self) -> None:
        """Look every 15 seconds until canceled."""
        while True:
            await self._clock.sleep(EVERY_S)
            try:
                await self.run_once()
            except (NotLeader, StoreUnavailable):
                raise
            except Exception:
                log.exception("idle sessions could not be examined; next attempt in %g s", EVERY_S)

    async def run_once(self) -> int:
        """Take the steps that are due; returns how many."""
        now_us, found = self._clock.now_us(), list[tuple[IdleCase, str]]()
        for session_id in self._candidates():
            session = self._state.sessions.get(session_id)
            case = self._next(session_id, session, now_us=now_us)
            if case is not None:
                found.append((case, self._words(case, session)))
        if found:
            await self._journal.persist(lambda draft: self._write(draft, found, now_us=now_us), actor=ACTOR)
        if any(case.is_due for case, _ in found):
            self._wake()
        return len(found)

    def _candidates(self) -> list[SessionId]:
        """Sessions with an open case, and those whose GPUs are idle for long enough for a first step."""
        rules = self._state.policy.preemption.idle
        found = {case.session_id for case in self._state.idle_cases.open()}
        if self._is_on():
            for held in self._state.readings.idle_devices.idle(rules.tell_ms * 1000):
                found |= held.sessions
        return sorted(found)

    def _is_on(self) -> bool:
        policy = self._state.policy
        actions = [policy.preemption.idle.action, *policy.preemption.idle.projects.values()]
        actions += [pool.idle for pool in policy.pools.values() if pool.idle is not None]
        return any(action is not IdleAction.OFF for action in actions)

    def _next(self, session_id: SessionId, session: Session | None, *, now_us: int) -> IdleCase | None:
        policy = self._state.policy
        known = self._state.idle_cases.of(session_id)
        runs = session is not None and session.state is SessionState.RUNNING and session.tasks is None
        action = IdleAction.OFF
        if session is not None and runs:
            action = policy.idle_action(pool=session.pool, project=session.project)
            if session.is_external_allocation and action in ACTS:
                action = IdleAction.TELL  # it has no processes that could be stopped
        attempt = session.attempt if session is not None and runs else -1
        if known is not None and known.is_open and attempt != known.attempt:
            attempt, action = known.attempt, IdleAction.OFF
        return next_case(
            known,
            None if session is None else self._seen(session),
            session_id=session_id,
            attempt=attempt,
            action=action,
            rules=policy.preemption.idle,
            now_us=now_us,
        )

    def _seen(self, session: Session) -> IdleObservation | None:
        held = list(self._state.readings.idle_devices.of(session.id))
        if not held or len(held) < len(allocated_gpus(self._state, session)):
            return None
        return idle_seen(held)

    def _words(self, case: IdleCase, session: Session | None) -> str:
        label = case.session_id if session is None else session_label(session)
        words = f"{label} {case.words()}"
        if case.step is IdleStep.OVER:
            return f"{label} uses its GPUs again, has ended, or the policy has changed"
        at_us = acts_us(case, self._state.policy.preemption.idle)
        if at_us is None:
            return f"{words}. Give them back if it does not need them"
        what = "ended" if case.action is IdleAction.END else "preempted and queued again"
        when = f"{moment(at_us):%Y-%m-%d %H:%M} UTC"
        return f"{words}. From {when} on it is {what} as soon as a waiting session starts for it"

    def _write(self, draft: UnitOfWork, found: Iterable[tuple[IdleCase, str]], *, now_us: int) -> None:
        taken = set[str]()
        for case, words in found:
            session = draft.session(case.session_id)
            name = self._state.idle_cases.name_of(case.session_id) or self._name(case, taken, now_us=now_us)
            taken.add(name)
            record(draft, case, name=name, owner="" if session is None else session.owner, words=words)

    def _name(self, case: IdleCase, taken: set[str], *, now_us: int) -> str:
        session = self._state.sessions[case.session_id]
        (first, *_) = sorted((gpu.node_id, gpu.gpu_id) for gpu in allocated_gpus(self._state, session))
        place = "/".join(first)
        name = self._state.idle_cases.free_name(place, now_us=now_us)
        while name in taken:
            place = f"{place}+"
            name = self._state.idle_cases.free_name(place, now_us=now_us)
        return name


def idle_seen(held: Iterable[HeldDevice]) -> IdleObservation:
    """What the readings of a session's GPUs show; at least one."""
    held = sorted(held, key=lambda one: one.device.id)
    shortest = min(held, key=lambda one: one.use.idle_us).use
    spell_us = 0
    if shortest.last_us is not None and shortest.idle_since_us is not None:
        spell_us = shortest.last_us - shortest.idle_since_us
    return IdleObservation(
        gpus=tuple(one.device.name for one in held),
        idle_us=shortest.idle_us,
        spell_us=spell_us,
        was_used=any(one.use.was_used for one in held),
        is_used=any(one.use.last_us is not None and one.use.idle_since_us is None for one in held),
    )
