"""Stopping the orchestrator: no new placements, everything else goes on, until it is started again."""

import pytest
from msgspec.structs import replace

from aliquot.service.admin.admin import Administration
from aliquot.service.admin.policy import begin_stopped
from aliquot.service.state.journal import Feed, Journal
from aliquot_schema.errors import Forbidden
from aliquot_schema.ids import SessionId
from aliquot_schema.orchestration import OrchestratorState
from aliquot_schema.policies import Preemption, PreemptScope
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import NewSession, Role
from aliquot_schema.states import KernelState
from aliquot_schema.states import SessionState as S
from leader_stage_stores import new_memory_store
from lone_service import load_state
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


def office(on: Stage) -> Administration:
    return Administration(state=on.state, journal=on.journal, clock=on.clock)


async def waits(on: Stage, session_id: SessionId) -> Reason | None:
    view = await on.queries.session(CALLER, session_id)
    assert view is not None
    return None if view.waits is None else view.waits.reason


async def test_a_stopped_orchestrator_starts_no_new_session_and_running_ones_continue() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await on.submit()
        await on.advance()
        await office(on).pause.stop_orchestrator(CALLER, "new switch")
        second = await on.submit()
        await on.advance()
        assert (on.session(first).state, on.session(second).state) == (S.RUNNING, S.QUEUED)
        assert await waits(on, second) is Reason.STOPPED
        on.executor.end_kernel(on.live()[0])  # type: ignore[arg-type]  # a kernel's id
        await on.settle()
        await on.advance()
        assert (on.session(first).state, on.session(second).state) == (S.COMPLETED, S.QUEUED)
        await office(on).pause.start_orchestrator(CALLER, None)
        await on.advance()
        assert on.session(second).state is S.RUNNING


async def test_no_pass_is_counted_while_the_orchestrator_is_stopped() -> None:
    async with stage([agent("a", devices=1)]) as on:
        counts, _ = await on.allocator.run_once()
        await office(on).pause.stop_orchestrator(CALLER, None)
        await on.submit()
        for _ in range(2):
            stopped, wake_at_us = await on.allocator.run_once()
            assert (stopped.number, stopped.placed, stopped.waiting, wake_at_us) == (counts.number, 0, 1, None)
        await office(on).pause.start_orchestrator(CALLER, None)
        started, _ = await on.allocator.run_once()
        assert (started.number, started.placed) == (counts.number + 1, 1)


async def test_a_plan_made_before_a_stop_is_not_carried_out_after_it() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = await on.submit()
        admin, decided = office(on), on.allocator.carry_out

        async def carry_out_late(plan: object, **more: object) -> object:
            assert plan.placements  # type: ignore[attr-defined]  # a plan
            await admin.pause.stop_orchestrator(CALLER, None)
            return await decided(plan, **more)  # type: ignore[arg-type]  # a plan

        on.allocator.carry_out = carry_out_late  # type: ignore[method-assign, assignment]  # between two steps of a pass
        counts, _ = await on.allocator.run_once()
        assert (counts.placed, on.session(name).state, on.held()) == (0, S.QUEUED, {})


async def test_no_session_is_preempted_while_the_orchestrator_is_stopped() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.state.rules = replace(
            on.state.rules, order="priority", preemption=Preemption(preempt=PreemptScope.ANY, run_ms_min=0)
        )
        low = await on.submit(priority="low")
        await on.advance()
        await office(on).pause.stop_orchestrator(CALLER, None)
        await on.submit(priority="critical")
        await on.advance()
        assert on.session(low).state is S.RUNNING
        await office(on).pause.start_orchestrator(CALLER, None)
        await on.advance()
        assert on.session(low).state is not S.RUNNING


async def test_a_stopped_orchestrator_still_stops_preempted_sessions_after_their_grace_period() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.state.rules = replace(
            on.state.rules,
            order="priority",
            preemption=Preemption(preempt=PreemptScope.ANY, run_ms_min=0, grace_ms=1000),
        )
        low = await on.submit(priority="low", checkpoint_signal="SIGUSR1", preemptible=True)
        await on.advance()
        await on.submit(priority="critical")
        await on.allocator.run_once()
        assert on.session(low).state is S.PREEMPTING
        await office(on).pause.stop_orchestrator(CALLER, None)
        _, wake_at_us = await on.allocator.run_once()
        assert wake_at_us is not None
        on.clock.advance(2)
        await on.allocator.run_once()
        assert [kernel.state for kernel in on.state.kernels_in(on.session(low))] == [KernelState.STOPPING]


async def test_a_preview_shows_that_the_orchestrator_is_stopped() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await office(on).pause.stop_orchestrator(CALLER, None)
        request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")])
        shown = await on.queries.preview_session(CALLER, request)
        assert shown.waits is not None
        assert (shown.starts_now, shown.waits.reason) == (False, Reason.STOPPED)


async def test_a_held_session_waits_because_held_also_while_the_orchestrator_is_stopped() -> None:
    async with stage([agent("a", devices=1)]) as on:
        held = await on.submit(held=True)
        await on.advance()
        await office(on).pause.stop_orchestrator(CALLER, None)
        assert await waits(on, held) is Reason.HELD


async def test_a_second_stop_changes_only_the_note() -> None:
    async with stage([agent("a", devices=1)]) as on:
        revision = await office(on).pause.stop_orchestrator(CALLER, "new switch")
        known = on.state.orchestration
        assert (known.state, known.changed_by, known.note) == (OrchestratorState.STOPPED, "ann", "new switch")
        bob = replace(CALLER, user="bob")  # type: ignore[arg-type]
        for note in (None, "new switch"):
            assert await office(on).pause.stop_orchestrator(bob, note) == revision
            assert on.state.orchestration == known
        assert await office(on).pause.stop_orchestrator(bob, "new router") == revision + 1
        newer = on.state.orchestration
        assert (newer.changed_by, newer.changed_us, newer.note) == ("ann", known.changed_us, "new router")


@pytest.mark.parametrize("act", ["stop_orchestrator", "start_orchestrator"])
async def test_only_operators_may_stop_and_start_the_orchestrator(act: str) -> None:
    async with stage([agent("a", devices=1)]) as on:
        with pytest.raises(Forbidden):
            await getattr(office(on).pause, act)(replace(CALLER, role=Role.USER), None)


async def test_a_stop_survives_a_restart_and_the_setting_applies_only_to_a_new_cluster() -> None:
    store = await new_memory_store()
    try:
        async with stage([agent("a", devices=1)], store=store) as on:
            assert await begin_stopped(on.journal, on.clock)
            assert on.state.orchestration.changed_by == "system:settings"
            await office(on).pause.start_orchestrator(CALLER, None)
            assert not await begin_stopped(on.journal, on.clock)
            await office(on).pause.stop_orchestrator(CALLER, "for the night")
        state, loaded = await load_state(store)
        assert (state.orchestration.is_stopped, state.orchestration.note) == (True, "for the night")
        feed = Feed(store, revision=state.revision)
        journal = Journal(store=store, state=state, feed=feed, clock=on.clock, epoch=loaded.epoch)
        assert await begin_stopped(journal, on.clock), "it is stopped, by whomever"
        assert state.orchestration.note == "for the night"
    finally:
        await store.close()
