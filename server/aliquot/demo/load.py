"""Load of the living demo: sessions of the invented users, submitted so that the cluster stays busy.

The load is of trials, which end within minutes. It leaves two GPUs to the person who looks at the demo, keeps a few
sessions waiting for a quota or for another session, and for hours one notebook that holds a GPU without using it. Its
sessions are canceled when the server stops.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from aliquot.demo.scenario import KINDS, PEOPLE, PROJECTS, TAG, JobKind, Submission, submission
from aliquot.service.use_cases import UseCases
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.sessions import Session

log: Final = logging.getLogger("aliquot.demo")

GPUS: Final = 14.0
"""GPUs that the load asks for, of the demo cluster's 16."""
WAITING: Final = 2
"""Sessions that are to wait: for the quota of their project, or for another session."""
IDLE: Final = next(work for work in KINDS if work.is_idle)
PERIOD_S: Final = 4.0
OPERATOR: Final = Caller(user=UserId("demo"), request_id="req_demo", role=Role.ADMIN)


class DemoLoad:
    """Keeps the demo cluster busy."""

    def __init__(self, cases: UseCases, *, seed: int) -> None:
        self._cases = cases
        self._random = Random(seed)
        self._count = 1000
        """Above the numbers of the week of history."""

    async def run(self) -> None:
        """Submit until canceled."""
        while True:
            await self.run_once()
            await self._cases.clock.sleep(PERIOD_S)

    async def run_once(self) -> int:
        """Submit what is missing now; returns the number of submissions."""
        made = 0
        while (planned := self._next()) is not None:
            try:
                await self._cases.sessions.create_session(planned.person.caller, planned.request)
            except AliquotError as error:
                # The person at the demo may have changed projects, users, quotas or agents.
                log.info("the demo's load could not submit %s: %s", planned.request.name, error.message)
                break
            made += 1
        return made

    async def close(self) -> None:
        """Cancel the load's sessions."""
        for session in list(self._present()):
            if session.array_id is None:
                await self._cases.sessions.cancel_session(OPERATOR, session.id, None)

    def _next(self) -> Submission | None:
        """What to submit next; None = enough is there."""
        present = [session for session in self._present() if session.tasks is None or session.tasks.waiting]
        kinds = {session.tags.get("kind") for session in present}
        if IDLE.name not in kinds:
            return self._plan(IDLE)
        busy = [work for work in KINDS if not work.is_idle]
        room = GPUS - _asked(present)
        fitting = [work for work in busy if _gpus_of(work) <= min(room, _project_room(work, present))]
        if fitting:
            missing = [work for work in fitting if work.name not in kinds]
            return self._plan(self._random.choice(missing or fitting))
        if sum(session.is_pending for session in present) < WAITING:
            return self._waiting(present)
        return None

    def _waiting(self, present: Sequence[Session]) -> Submission | None:
        """A session that waits: for its project's quota if one is used up, else for a session that runs."""
        single = [work for work in KINDS if not (work.is_idle or work.tasks)]
        full = [work for work in single if _project_room(work, present) < _gpus_of(work)]
        if full:
            return self._plan(min(full, key=_gpus_of))
        running = [session for session in present if not session.is_pending and session.tasks is None]
        trials = [session for session in running if session.tags.get("kind") != IDLE.name]
        if not trials:
            return None
        after = self._random.choice(trials)
        planned = self._plan(next(work for work in KINDS if work.name == "evaluate"))
        return replace(planned, request=replace(planned.request, depends_on=((after.id, "after_any"),)))

    def _plan(self, work: JobKind) -> Submission:
        self._count += 1
        now_us = self._cases.clock.now_us()
        return submission(self._random, work, at_us=now_us, number=self._count, is_trial=not work.is_idle)

    def _present(self) -> Iterator[Session]:
        """The load's sessions that have not ended; tasks of arrays beside their arrays."""
        people = {person.name for person in PEOPLE}
        for session in self._cases.state.sessions.values():
            if not session.is_ended and TAG in session.tags and session.owner in people:
                yield session


def _gpus_of(work: JobKind) -> float:
    """GPUs that a session, or all tasks of an array, of this kind hold."""
    return float(work.slot[1]) * work.cluster_size * max(1, work.tasks)


def _asked(sessions: Iterable[Session]) -> float:
    """GPUs asked for; a job array asks for those of its waiting tasks."""
    tasks = ((session, 1 if session.tasks is None else len(session.tasks.waiting)) for session in sessions)
    return sum(session.gpus_milli * count for session, count in tasks) / MILLI


def _project_room(work: JobKind, present: Iterable[Session]) -> float:
    """GPUs that the project of a work may hold besides those asked for."""
    limit, _ = PROJECTS[work.project]
    return float(limit) - _asked(session for session in present if session.project == work.project)
