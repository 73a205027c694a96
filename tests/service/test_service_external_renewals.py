"""External allocations requested repeatedly: running ones keep their devices, abandoned ones hold none."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.access import Trust
from aliquot.service.accounts.rate_limit import Rate, SubmissionRateLimit
from aliquot.service.quotas import Quotas
from aliquot.service.scheduling.plan_applier import WAITED_US_MAX
from aliquot.service.sessions.external_allocations import request_of
from aliquot.service.views.terms import moment
from aliquot_schema.errors import IdempotencyMismatch, QuotaExceeded, RateLimited
from aliquot_schema.ids import UserId
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Caller, NewSession, Role
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.admin import NewQuota
from aliquot_schema.views.preview import ExternalAllocationView, NewExternalAllocation
from leader_servers import servers_on
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

BOB = replace(CALLER, user=UserId("bob"), role=Role.USER)


async def allocated(
    on: Stage, job: str = "job", count: str = "1", *, caller: Caller = CALLER, **more: Any
) -> ExternalAllocationView:
    """Request GPUs while passes run continuously, as in a server."""
    passes = asyncio.create_task(on.allocator.run())
    try:
        async with asyncio.timeout(60):
            return await on.external_allocations.allocate(
                caller, NewExternalAllocation(job_id=job, gpu_count=count, **more)
            )
    finally:
        passes.cancel()
        await asyncio.gather(passes, return_exceptions=True)
        on.check()


async def test_rate_limits_and_lowered_quotas_do_not_prevent_renewals() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await allocated(on, count="2")
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        limits = NewQuota(scope=QuotaScope.USER, name="ann", max_slots=[("cuda.device", "1")], max_queued=0)
        await quotas.set_quota(CALLER, limits, None)
        rate = Rate(per_minute=1)
        on.limit(SubmissionRateLimit(on.state.people, trust=Trust.SHARED, rate=rate, monotonic=lambda: 0.0))
        for _ in range(3):
            second = await allocated(on, count="2", lease=7200.0)
            assert (second.session_id, second.renewed) == (first.session_id, True)
        with pytest.raises(QuotaExceeded):
            await allocated(on, job="other", count="2")


async def test_a_new_larger_agent_does_not_prevent_renewals() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
        first = await allocated(on, count="3")
        on.executor.add_agent(agent("c", devices=8))
        await on.settle()
        assert (await allocated(on, count="3")).session_id == first.session_id
        with pytest.raises(IdempotencyMismatch):
            await allocated(on, count="2")


async def test_new_allocations_count_against_the_rate_limit_and_renewals_do_not() -> None:
    async with stage([agent("a", devices=4)]) as on:
        rate = Rate(per_minute=2)
        on.limit(SubmissionRateLimit(on.state.people, trust=Trust.ALONE, rate=rate, monotonic=lambda: 0.0))
        for job in ("one", "two"):
            await allocated(on, job, caller=BOB)
        with pytest.raises(RateLimited):
            await on.external_allocations.allocate(BOB, NewExternalAllocation(job_id="three", gpu_count="1"))
        assert (await on.external_allocations.allocate(BOB, NewExternalAllocation(job_id="one", gpu_count="1"))).renewed


async def test_a_job_allocated_and_released_often_is_allocated_in_one_step() -> None:
    async with stage([agent("a", devices=1)]) as on:
        for _ in range(12):
            await allocated(on)
            await on.external_allocations.release(CALLER, "job")
        keys: list[str] = []
        create = on.external_allocations._creation.create

        async def counted(caller: Caller, request: NewSession) -> tuple[Session, bool]:
            keys.append(request.idempotency_key or "")
            return await create(caller, request)

        on.external_allocations._creation.create = counted  # type: ignore[method-assign]  # counts every call
        await allocated(on)
        assert len(keys) == 1


async def test_an_allocation_whose_caller_no_longer_waits_is_refused_by_a_late_pass() -> None:
    async with stage([agent("a", devices=1)]) as on:
        request = request_of(on.state, NewExternalAllocation(job_id="job", gpu_count="1"))
        session, _ = await on.external_allocations._creation.create(CALLER, request)
        on.clock.advance(WAITED_US_MAX / 1e6 + 1)
        await on.advance()
        assert (on.session(session.id).state, on.held()) == (S.FAILED, {})
        assert (await allocated(on)).gpu_ids == ("a-gpu-0",)


async def test_an_allocation_that_ended_during_its_renewal_is_made_again() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await allocated(on)
        transact = on.journal.transact

        async def after_its_end(*args: Any, **more: Any) -> Any:
            on.journal.transact = transact  # type: ignore[method-assign]
            await on.external_allocations.release(CALLER, "job")
            return await transact(*args, **more)

        on.journal.transact = after_its_end  # type: ignore[method-assign]  # a concurrent change
        second = await allocated(on)
        assert (second.renewed, second.session_id != first.session_id) == (False, True)


async def test_a_server_with_stale_state_reads_the_database_before_it_allocates_or_releases(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        leader = await servers.leader()
        other = next(server for server in servers.all if server is not leader)
        await leader.until(lambda: bool(leader.cases.state.agents))
        await other.until(lambda: bool(other.cases.state.agents))
        await other.stop()  # it gets no further updates
        given = await leader.cases.external_allocations.allocate(
            CALLER, NewExternalAllocation(job_id="job", gpu_count="1")
        )
        again = await other.cases.external_allocations.allocate(
            CALLER, NewExternalAllocation(job_id="job", gpu_count="1")
        )
        assert (again.session_id, again.renewed) == (given.session_id, True)
        await leader.cases.external_allocations.release(CALLER, "job")
        given = await leader.cases.external_allocations.allocate(
            CALLER, NewExternalAllocation(job_id="next", gpu_count="1")
        )
        assert (await other.cases.external_allocations.release(CALLER, "next")).session_id == given.session_id


async def test_an_allocation_with_a_time_limit_is_backfilled_and_not_renewed_beyond_the_limit() -> None:
    async with stage([agent("a", devices=3)]) as on:
        await on.submit(devices=2, time_limit=600)
        await on.advance()
        head = await on.submit(devices=3, time_limit=600)
        await on.advance()
        promised = on.state.promised_us[head]
        first = await allocated(on, lease=60.0, time_limit=300.0)
        ends = moment(on.clock.now_us()) + timedelta(seconds=300)
        on.clock.advance(30)
        second = await allocated(on, lease=3600.0, time_limit=300.0)
        assert (second.session_id, second.renewed) == (first.session_id, True)
        assert second.expires_at is not None
        assert abs(second.expires_at - ends) < timedelta(seconds=1)
        await on.advance()
        assert on.state.promised_us[head] == promised
        on.clock.advance(271)
        await on.advance()
        assert len(on.held()) == 2


async def test_a_lease_is_no_longer_than_its_time_limit() -> None:
    async with stage([agent("a", devices=1)]) as on:
        before = moment(on.clock.now_us())
        view = await allocated(on, lease=3600.0, time_limit=60.0)
        assert view.expires_at is not None
        assert view.expires_at - before < timedelta(seconds=62)
