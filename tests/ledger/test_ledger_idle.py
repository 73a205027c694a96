"""An idle session is evicted for a waiting one: the pass is replayed from the log."""

import asyncio

import pytest

from aliquot.core.idle_process import IdleCase
from aliquot.service.ledger.replay import replay
from aliquot.service.lifecycle.idle_sessions import record
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.requests import NewSession
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import SessionState
from ledger_workload import OPERATOR, RandomWorkload, workload_on
from store_places import Place

pytestmark = pytest.mark.anyio

WHOLE = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "4")], cluster_size=3)


async def until(workload: RandomWorkload, name: SessionId, state: SessionState) -> None:
    """Wait for a state."""
    async with asyncio.timeout(60):
        while workload.service.state.sessions[name].state is not state:
            workload.service.allocator.wake()
            await asyncio.sleep(0.01)


async def test_an_idle_eviction_replays_without_a_difference(place: Place) -> None:
    async with workload_on(place) as (workload, running):
        sessions, state = workload.service.sessions, workload.service.state
        name = SessionId((await sessions.create_session(OPERATOR, WHOLE)).session.id)
        await until(workload, name, SessionState.RUNNING)
        now_us = workload.clock.now_us()
        case = IdleCase(
            session_id=name,
            attempt=1,
            action=IdleAction.PREEMPT,
            step=IdleStep.DUE,
            gpus=("gpu0",),
            idle_us=5_700_000_000,
            was_used=True,
            step_us=now_us,
        )
        await workload.service.journal.persist(
            lambda draft: record(draft, case, name="idle/a/0/0", owner="ann", words="idle"), actor="system:idle"
        )
        waiting = SessionId((await sessions.create_session(OPERATOR, WHOLE)).session.id)
        await until(workload, name, SessionState.PREEMPTING)
        acted = state.idle_cases.of(name)
        assert acted is not None
        assert (acted.step, acted.by_session) == (IdleStep.ACTED, waiting)
        await workload.run_until_entries(running.ledger, 2)
    store = place.store()
    await store.open()
    try:
        keys = await store.ledger.last(100_000)
        found = [one async for one in replay(store.ledger, first=keys[0].number, last=keys[-1].number)]
        assert [one.differences for one in found if one.differences] == []
        causes = [eviction.cause for one in found for eviction in one.entry.plan.evictions]
        assert causes.count(PreemptionCause.IDLE) == 1, "others may be preempted by priority"
    finally:
        await store.close()
