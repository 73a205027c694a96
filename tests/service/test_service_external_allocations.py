"""External allocations: granted immediately or refused, by a pass, charged, shown, and given back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from msgspec.structs import replace

from aliquot.service.admin.admin import Administration
from aliquot.service.agents.differences import differences, foreign_uses
from aliquot.service.alerts.conditions import failure_rate
from aliquot.service.sessions.command_checks import CommandChecks, CommandRules
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.use_cases import state_of
from aliquot.service.views.terms import moment
from aliquot_schema.cluster.launching import AgentSilent
from aliquot_schema.errors import (
    Forbidden,
    IdempotencyMismatch,
    ImpossibleRequest,
    InvalidAmount,
    InvalidRequest,
    NotFound,
    NotPlaced,
    StateConflict,
)
from aliquot_schema.ids import AgentId, DeviceId, SessionId, UserId
from aliquot_schema.policies import Preemption, PreemptScope
from aliquot_schema.requests import Role
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading
from aliquot_schema.resources.leases import EndEvidence, LeaseKind
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.preview import BlockerView, ExternalAllocationView, NewExternalAllocation
from leader_stage_stores import new_memory_store
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

BOB = replace(CALLER, user=UserId("bob"), role=Role.USER)
T = TypeVar("T")


@asynccontextmanager
async def passes(on: Stage) -> AsyncIterator[None]:
    """Run passes continuously, as a server does."""

    async def run() -> None:
        await on.allocator.run()

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def called(on: Stage, call: Awaitable[T]) -> T:
    async with passes(on), asyncio.timeout(60):
        return await call


async def allocate(on: Stage, job: str = "job", count: str = "1", **more: object) -> ExternalAllocationView:
    asked = NewExternalAllocation(job_id=job, gpu_count=count, **more)  # type: ignore[arg-type]  # by name
    view = await called(on, on.external_allocations.allocate(CALLER, asked))
    on.check()
    return view


def session_of(view: ExternalAllocationView) -> SessionId:
    return SessionId(view.session_id)


async def test_an_external_allocation_gets_devices_immediately_and_starts_no_kernel() -> None:
    async with stage([agent("a", devices=2)]) as on:
        view = await allocate(on, count="2", memory_gb="40")
        assert sorted(view.gpu_ids) == ["a-gpu-0", "a-gpu-1"]
        assert (view.renewed, [gpu.memory_gb for gpu in view.gpus]) == (False, [80.0, 80.0])
        session = on.session(session_of(view))
        assert (session.state, session.run_id, on.live()) == (S.RUNNING, "job", [])
        assert {lease.kind for lease in on.state.external_allocations.of(session.id)} == {LeaseKind.MANUAL}
        assert on.held() == {"a-gpu-0": 1000, "a-gpu-1": 1000}
        assert on.executor.agents[AgentId("a")].orders == {}
        seen = await on.queries.session(CALLER, session.id)
        assert seen is not None
        assert (seen.holds_devices, len(seen.allocated_gpus)) == (True, 2)


async def test_an_external_allocation_can_get_a_share_of_a_gpu() -> None:
    async with stage([agent("a", devices=1)]) as on:
        view = await allocate(on, count="0.25")
        assert [(gpu.gpu_id, gpu.share, gpu.memory_gb) for gpu in view.gpus] == [("a-gpu-0", 0.25, 20.0)]


async def test_an_external_allocation_can_span_several_agents() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
        view = await allocate(on, count="3")
        assert (len(set(view.gpu_ids)), {gpu.share for gpu in view.gpus}) == (3, {1.0})
        assert (await allocate(on, count="3")).renewed
        await on.external_allocations.release(CALLER, "job")
        on.check()
        assert on.held() == {}
        with pytest.raises(ImpossibleRequest):
            await allocate(on, count="5")


async def test_a_refused_external_allocation_gets_nothing_and_names_the_holders_with_their_ends() -> None:
    async with stage([agent("a", devices=2)]) as on:
        holder = await on.submit(time_limit=600)
        await on.advance()
        with pytest.raises(NotPlaced) as refused:
            await allocate(on, count="2")
        assert refused.value.reason == "insufficient"
        (blocker,) = refused.value.holders
        assert isinstance(blocker, BlockerView)
        assert (blocker.session_id, blocker.user) == (holder, "ann")
        assert refused.value.until == blocker.until
        assert blocker.until is not None
        assert on.held() == {"a-gpu-1": 1000} or on.held() == {"a-gpu-0": 1000}


async def test_a_repeated_allocation_of_one_job_keeps_its_devices_and_renews_the_lease() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await allocate(on, lease=60.0)
        on.clock.advance(30)
        second = await allocate(on, lease=60.0)
        assert (second.session_id, second.gpu_ids, second.renewed) == (first.session_id, first.gpu_ids, True)
        assert first.expires_at is not None
        assert second.expires_at is not None
        assert (second.expires_at - first.expires_at).total_seconds() == pytest.approx(30, abs=1)
        assert (await allocate(on, lease=1.0)).expires_at == second.expires_at, "a shorter time takes nothing away"
        assert len(on.held()) == 1
        with pytest.raises(IdempotencyMismatch):
            await allocate(on, count="2")


async def test_concurrent_allocations_of_one_job_create_one_allocation() -> None:
    async with stage([agent("a", devices=4)]) as on:
        asked = NewExternalAllocation(job_id="job", gpu_count="1")
        views = await called(on, asyncio.gather(*(on.external_allocations.allocate(CALLER, asked) for _ in range(4))))
        assert len({view.session_id for view in views}) == 1
        assert sorted(view.renewed for view in views) == [False, True, True, True]
        assert len(on.held()) == 1


async def test_a_second_request_is_not_refused_while_the_first_one_is_being_placed() -> None:
    """A client that retries after a timeout must not get "insufficient" while its first call is granted."""
    async with stage([agent("a", devices=1)]) as on:
        asked = NewExternalAllocation(job_id="job", gpu_count="1")
        first = asyncio.create_task(on.external_allocations.allocate(CALLER, asked))
        while not any(session.is_pending for session in on.state.sessions.values()):  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
        second = asyncio.create_task(on.external_allocations.allocate(CALLER, asked))
        views = await called(on, asyncio.gather(first, second))
        assert [(view.gpu_ids, view.renewed) for view in views] == [(("a-gpu-0",), False), (("a-gpu-0",), True)]


async def test_of_concurrent_releases_of_one_job_one_succeeds() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await allocate(on)
        answers = await asyncio.gather(
            *(on.external_allocations.release(CALLER, "job") for _ in range(3)), return_exceptions=True
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["ExternalAllocationView", "NotFound", "NotFound"]


async def test_a_released_job_can_be_allocated_again() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await allocate(on)
        done = await on.external_allocations.release(CALLER, "job")
        assert (done.gpu_ids, done.expires_at) == (first.gpu_ids, None)
        assert (on.held(), on.session(session_of(first)).state) == ({}, S.COMPLETED)
        with pytest.raises(NotFound):
            await on.external_allocations.release(CALLER, "job")
        second = await allocate(on)
        assert second.session_id != first.session_id
        third = await on.external_allocations.release(CALLER, "job")
        assert third.session_id == second.session_id


async def test_an_expired_external_allocation_is_released_with_events() -> None:
    async with stage([agent("a", devices=1)]) as on:
        view = await allocate(on, lease=60.0)
        _, wake_at_us = await on.allocator.run_once()
        lease = on.state.external_allocations.of(session_of(view))[0]
        assert wake_at_us == lease.until_us
        kinds: list[str] = []
        on.journal.subscribe(lambda event: kinds.append(f"{event.kind} {event.actor}"))
        on.clock.advance(61)
        await on.allocator.run_once()
        on.check()
        session = on.session(session_of(view))
        assert (on.held(), session.state, session.failure is not None) == ({}, S.FAILED, True)
        assert "session.expired system:allocator" in kinds
        assert "lease.released system:allocator" in kinds


async def test_command_rules_do_not_apply_to_external_allocations() -> None:
    """It has no command that an operator could check."""
    commands = CommandChecks(CommandRules(allow=("^python ",)))
    async with stage([agent("a", devices=1)], commands=commands) as on:
        first = await allocate(on, lease=60.0)
        with pytest.raises(NotPlaced) as refused:
            await allocate(on, job="other")
        assert [blocker.session_id for blocker in refused.value.holders if isinstance(blocker, BlockerView)] == [
            first.session_id
        ]
        with pytest.raises(InvalidRequest, match="none of the allowed command patterns"):
            await on.submit()


async def test_an_expired_external_allocation_does_not_count_in_the_failure_rate() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await allocate(on, lease=60.0)
        on.clock.advance(61)
        await on.allocator.run_once()
        assert failure_rate(on.state, now_us=on.clock.now_us()) == (0, 0)


async def test_external_allocations_expire_but_none_is_granted_while_scheduling_is_stopped() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await allocate(on, lease=60.0)
        office = Administration(state=on.state, journal=on.journal, clock=on.clock)
        await office.pause.stop_orchestrator(CALLER, None)
        assert (await allocate(on, lease=120.0)).renewed
        with pytest.raises(NotPlaced) as refused:
            await allocate(on, job="other")
        assert refused.value.reason == "stopped"
        on.clock.advance(121)
        await on.allocator.run_once()
        assert on.held() == {}


async def test_an_external_allocation_does_not_delay_the_head_of_the_queue() -> None:
    async with stage([agent("a", devices=3)]) as on:
        await on.submit(devices=2, time_limit=600)
        await on.advance()
        head = await on.submit(devices=3, time_limit=600)
        await on.advance()
        promised = on.state.promised_us[head]
        with pytest.raises(NotPlaced) as refused:
            await allocate(on, lease=10.0)
        (blocker,) = refused.value.holders
        assert isinstance(blocker, BlockerView)
        assert (blocker.session_id, blocker.until) == (head, None)
        start = moment(promised)
        assert refused.value.until == start
        assert refused.value.message == (
            f"1 GPU is free, but {head} of ann is next and starts by {start:%Y-%m-%d %H:%M:%S} UTC; this "
            "allocation has no time limit and could delay it. Give it a time limit that ends before that, "
            "or try again later."
        )
        with pytest.raises(NotPlaced, match=r"an allocation of 20 min would delay it\. Give it a shorter time limit"):
            await allocate(on, lease=10.0, time_limit=1200.0)
        await on.advance()
        assert on.state.promised_us[head] == promised
        assert await on.submit(time_limit=60)
        await on.advance()
        assert len(on.held()) == 3, "who says when it ends may pass"


async def test_an_external_allocation_neither_preempts_nor_is_preempted() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.state.rules = replace(
            on.state.rules, order="priority", preemption=Preemption(preempt=PreemptScope.ANY, run_ms_min=0)
        )
        low = await on.submit(priority="low")
        await on.advance()
        with pytest.raises(NotPlaced):
            await allocate(on)
        assert on.session(low).state is S.RUNNING
        on.executor.end_kernel(on.live()[0])  # type: ignore[arg-type]  # a kernel's id
        await on.settle()
        view = await allocate(on)
        await on.submit(priority="critical")
        await on.advance()
        assert on.session(session_of(view)).state is S.RUNNING


async def test_an_external_allocation_is_charged_to_its_owner() -> None:
    async with stage([agent("a", devices=1)]) as on:
        view = await allocate(on)
        on.clock.advance(3600)
        await on.external_allocations.release(CALLER, "job")
        session = on.session(session_of(view))
        (account,) = [known for known in on.state.accounts.values() if known.user == "ann"]
        assert session.owner == account.user
        assert account.charged >= 1000 * 3_600_000


async def test_canceling_the_session_releases_its_external_allocation_and_a_retry_is_refused() -> None:
    async with stage([agent("a", devices=1)]) as on:
        view = await allocate(on)
        await on.cancel(session_of(view))
        on.check()
        assert (on.held(), on.session(session_of(view)).state) == ({}, S.CANCELED)
        with pytest.raises(StateConflict):
            await on.sessions.retry_session(CALLER, view.session_id, None)


async def test_an_external_allocation_belongs_to_its_owner_alone_and_viewers_get_none() -> None:
    async with stage([agent("a", devices=2)]) as on:
        view = await allocate(on)
        with pytest.raises(NotFound):
            await on.external_allocations.release(BOB, "job")
        with pytest.raises(Forbidden):
            await on.external_allocations.allocate(
                replace(BOB, role=Role.VIEWER), NewExternalAllocation(job_id="job", gpu_count="1")
            )
        own = await called(
            on, on.external_allocations.allocate(BOB, NewExternalAllocation(job_id="job", gpu_count="1"))
        )
        assert own.session_id != view.session_id


@pytest.mark.parametrize("count", ["-1", "NaN", "many", "Infinity"])
async def test_an_invalid_gpu_count_is_refused(count: str) -> None:
    async with stage([agent("a", devices=1)]) as on:
        with pytest.raises(InvalidAmount):
            await allocate(on, count=count)


async def test_an_external_allocation_survives_a_restart_with_its_expiry() -> None:
    store = await new_memory_store()
    try:
        async with stage([agent("a", devices=1)], store=store) as on:
            view = await allocate(on, lease=60.0)
            ends = on.state.external_allocations.ends()
            again = await state_of(await store.open(), store=store)
            assert again.external_allocations.ends() == ends
            assert again.sessions[session_of(view)].is_external_allocation
            assert again.holds_devices(session_of(view))
    finally:
        await store.close()


async def test_a_released_external_allocation_records_the_evidence_of_its_end() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await allocate(on)
        evidence: list[EndEvidence | None] = []
        on.journal.subscribe(
            lambda event: evidence.append(event.record.evidence) if event.kind == "lease.released" else None  # type: ignore[union-attr]
        )
        await on.external_allocations.release(CALLER, "job")
        assert evidence == [EndEvidence.GIVEN_BACK]


async def test_the_reaper_reports_no_differences_for_an_external_allocation() -> None:
    async with stage([agent("a", devices=1)]) as on:
        view = await allocate(on)
        device = DeviceId(view.gpu_ids[0])
        reading = DeviceReading(device_id=device, processes=(DeviceProcess(pid=4711, memory_bytes=1),))
        on.state.readings[AgentId("a"), device] = reading
        assert list(foreign_uses(on.state)) == [], "its own processes are on what it holds"
        inventory = await on.executor.inventory(AgentId("a"))
        found = differences(on.state, inventory, before={}, now_us=on.clock.now_us(), grace_ms=100)
        assert list(found) == []
        await on.external_allocations.release(CALLER, "job")
        assert [difference.subject for difference in foreign_uses(on.state)] == [device]


async def test_a_stop_and_a_lease_made_at_another_server_take_effect() -> None:
    store = await new_memory_store()
    try:
        async with stage([agent("a", devices=2)], store=store) as on:
            state = await state_of(await store.open(), store=store)
            feed = Feed(store, revision=state.revision)
            journal = Journal(store=store, state=state, feed=feed, clock=on.clock, epoch=0, is_shared=True)
            view = await allocate(on)
            await journal.catch_up()
            assert state.external_allocations.ends() == on.state.external_allocations.ends()
            assert state.used == on.state.used
            await Administration(state=state, journal=journal, clock=on.clock).pause.stop_orchestrator(CALLER, None)
            await on.journal.catch_up()
            waiting = await on.submit()
            await on.advance()
            assert on.session(waiting).state is S.QUEUED
            assert on.session(session_of(view)).state is S.RUNNING
    finally:
        await store.close()


async def test_releasing_a_lost_agent_ends_the_external_allocations_on_it() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        view = await allocate(on, count="2")
        await on.on_event(AgentSilent(agent_id=AgentId("a"), lost=True))
        assert on.session(session_of(view)).state is S.RUNNING
        office = Administration(state=on.state, journal=on.journal, clock=on.clock)
        await office.agents.release_lost_agent(CALLER, "a")
        on.check()
        session = on.session(session_of(view))
        assert (on.held(), session.state) == ({}, S.FAILED)
        assert session.failure is not None
        assert session.failure.code == "agent_lost"
