"""What-if questions: what one more session, a drained agent, another policy or more agents would change."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, cast

from msgspec.structs import replace

from aliquot.core.foresight.remedies import Delay
from aliquot.core.foresight.what_if import (
    PlannedRun,
    difference,
    drained,
    planned_run,
    running_on,
    with_agents_like,
    with_session,
)
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.policy_changes import amended
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.validation.fields import count
from aliquot.core.workloads import workload_of
from aliquot.service.ports import Clock
from aliquot.service.sessions.preview import Previews
from aliquot.service.sessions.submission import Submission
from aliquot.service.state.rows import pending_row
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.views.remedies import OtherSessions
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.errors import InvalidRequest, NotFound, RateLimited
from aliquot_schema.ids import AgentId, SessionId, UserId
from aliquot_schema.requests import Caller, WhatIf
from aliquot_schema.states import SessionState
from aliquot_schema.views.explanations import WhatIfView

SEED: Final = 0
SHOWN_MAX: Final = 20
"""Sessions of a kind that are described."""
KEPT_US: Final = 1_000_000
"""For how long the run of the present state is used again."""
STOPPED: Final = "scheduling is stopped, so nothing starts; the times are those if it were started now"
OPEN_MAX: Final = 20
"""Questions that wait for the worker thread at most."""
OPEN_OF_ONE_MAX: Final = 4
"""Of them, those of one user."""
RETRY_S: Final = 5.0
AGENTS_MAX: Final = 64
"""Agents that are added at most."""


class WhatIfs:
    """Answers on the current state, one at a time in a worker thread; changes nothing."""

    def __init__(self, *, state: State, creation: Submission, previews: Previews, clock: Clock) -> None:
        self._state = state
        self._creation = creation
        self._previews = previews
        self._clock = clock
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="what-if")
        self._open: Counter[UserId] = Counter()
        self._before: tuple[Snapshot, Policy, int, PlannedRun] | None = None
        """The last present state that was run, and when."""

    async def what_if(self, caller: Caller, asked: WhatIf) -> WhatIfView:
        """What changes would mean for waiting sessions.

        Raises:
            InvalidRequest: nothing is asked, or a value is wrong.
            NotFound: there is no such agent.
            RateLimited: many questions are not answered yet.
            And for `session` the errors of a submission: viewers ask about the cluster alone.
        """
        if asked.session is None and asked.drain is None and asked.policy is None and asked.like is None:
            raise InvalidRequest("what_if: give a session, an agent to drain, a policy, or agents to add")
        row = None if asked.session is None else await self._row(caller, asked)
        snapshot, rules, now_us = take(self._state), self._state.rules, self._clock.now_us()
        changed, displaced = self._changed(snapshot, asked, row)
        policy = rules if asked.policy is None else self._amended(asked)
        preview = None
        if asked.session is not None:
            preview = await self._previews.preview(caller, asked.session, after=(changed, policy))
        changed = changed if row is None else with_session(changed, row)

        def run() -> tuple[PlannedRun, PlannedRun]:
            known = self._before
            is_fresh = known is not None and known[1] is rules and 0 <= now_us - known[2] < KEPT_US
            if known is None or known[0].revision != snapshot.revision or not is_fresh:
                known = self._before = snapshot, rules, now_us, planned_run(snapshot, rules, now_us=now_us, seed=SEED)
            return known[3], planned_run(changed, policy, now_us=known[2], seed=SEED)

        with self._counted(caller.user):
            before, after = await asyncio.get_running_loop().run_in_executor(self._worker, run)
        apart = {*(held.session_id for held in displaced), *(() if row is None else (row.session_id,))}
        found = difference(before, after, apart=apart)
        others = OtherSessions(self._state, snapshot, before.plan, now_us=now_us)
        start_us = None if row is None or after.starts_us is None else after.starts_us.get(row.session_id)
        evicted = [eviction.session_id for eviction in after.plan.evictions]
        stopped = [*(held.session_id for held in displaced), *_fresh(evicted, before)]
        again_us = after.starts_us or {}
        return WhatIfView(
            revision=snapshot.revision,
            at=moment(now_us),
            starts=others.views(found.starting[:SHOWN_MAX]),
            displaced=others.views(stopped),
            restarts=others.delays(
                Delay(session_id=name, before_us=None, after_us=again_us.get(name)) for name in stopped
            ),
            later=others.delays(_shown(found.later)),
            later_count=len(found.later),
            sooner=others.delays(_shown(found.sooner)),
            sooner_count=len(found.sooner),
            wait_before=None if found.waits_s is None else found.waits_s[0],
            wait_after=None if found.waits_s is None else found.waits_s[1],
            note=_note(before, after, is_stopped=self._state.orchestration.is_stopped),
            session=preview,
            session_start=moment_or_none(start_us),
        )

    @contextmanager
    def _counted(self, user: UserId) -> Iterator[None]:
        if self._open[user] >= OPEN_OF_ONE_MAX or self._open.total() >= OPEN_MAX:
            whose = "your" if self._open[user] >= OPEN_OF_ONE_MAX else "all users'"
            text = f"what_if: {whose} earlier questions are not answered yet; try again in {RETRY_S:.0f} seconds"
            raise RateLimited(text, retry_after=RETRY_S)
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1

    def close(self) -> None:
        """Stop the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _row(self, caller: Caller, asked: WhatIf) -> PendingRow:
        assert asked.session is not None
        session = await self._creation.dry_run(caller, asked.session)
        return pending_row(session, workload=workload_of(session))

    def _changed(
        self, snapshot: Snapshot, asked: WhatIf, row: PendingRow | None
    ) -> tuple[Snapshot, tuple[RunningRow, ...]]:
        """The snapshot with the changes of the cluster, and the sessions displaced by them.

        It knows the run times of the session to be added, but does not have the session.
        """
        found, joining = snapshot, [] if row is None else [row]
        gone: tuple[RunningRow, ...] = ()
        if asked.like is not None:
            number = count(asked.count, field="count", least=1, most=AGENTS_MAX)
            agent = next((agent for agent in snapshot.agents if agent.id == asked.like), None)
            if agent is None:
                raise _unknown(asked.like)
            found = with_agents_like(found, agent, count=number)
        if asked.drain is not None:
            if all(agent.id != asked.drain for agent in snapshot.agents):
                raise _unknown(asked.drain)
            name = AgentId(asked.drain)
            rows = tuple(self._requeued(snapshot, name)) if asked.evict else None
            found, held = drained(found, name, self._state.rules, requeued=rows)
            gone, joining = tuple(held), [*joining, *(rows or ())]
        return replace(found, run_times={**found.run_times, **self._run_times(joining)}), gone

    def _run_times(self, rows: Iterable[PendingRow]) -> dict[Workload, RunTimes]:
        """Expected run times of sessions that do not wait now; those of waiting ones are in the snapshot."""
        workloads = dict.fromkeys(row.workload for row in rows if row.workload is not None)
        predicted = {workload: self._state.forecasts.like(workload) for workload in workloads}
        return {workload: found.run_times for workload, found in predicted.items() if found is not None}

    def _requeued(self, snapshot: Snapshot, agent_id: AgentId) -> Iterable[PendingRow]:
        """Rows of the sessions that run on an agent, as they are queued again once they are preempted."""
        for held in running_on(snapshot, agent_id):
            session = self._state.sessions.get(held.session_id)
            if session is not None and session.state is SessionState.RUNNING and not session.is_external_allocation:
                waiting = replace(session, state=SessionState.QUEUED)
                yield pending_row(waiting, workload=workload_of(session))

    def _amended(self, asked: WhatIf) -> Policy:
        changes = cast("dict[str, Any]", asked.policy or {})
        return Policy.of(amended(self._state.policy, changes))


def _fresh(evicted: Iterable[SessionId], before: PlannedRun) -> list[SessionId]:
    """Sessions that are preempted only after the changes."""
    anyway = {eviction.session_id for eviction in before.plan.evictions}
    return [name for name in evicted if name not in anyway]


def _shown(delays: tuple[Delay, ...]) -> tuple[Delay, ...]:
    return delays[:SHOWN_MAX]


def _note(before: PlannedRun, after: PlannedRun, *, is_stopped: bool) -> str | None:
    why_not = before.why_not or after.why_not
    notes = [STOPPED] if is_stopped else []
    notes += [] if why_not is None else [f"later starts are unknown: the queue is long and has {why_not}"]
    return "; ".join(notes) or None


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no agent {name[:80]}", kind="agent", id=name[:80])
