"""Explanations: the reason with its evidence, the sessions ahead, and remedies that work when applied."""

from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from aliquot.core.model.snapshot import PendingRow
from aliquot.service.sessions.explanations import in_the_way
from aliquot.service.state.snapshots import take
from aliquot_schema.bookings import BookedDevice, Booking, BookingState
from aliquot_schema.errors import Forbidden
from aliquot_schema.ids import AgentId, BookingId, PoolId, ProjectId, SessionId, UserId
from aliquot_schema.orchestration import OrchestratorState
from aliquot_schema.policies import Pool, Preemption, PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Evidence, Reason, RemedyKind, Verdict
from aliquot_schema.requests import Caller, Role, SessionAmendment
from aliquot_schema.resources.slots import SlotAmounts
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.explanations import ExplanationView, RemedyView
from forecast_records import shown_forecast
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio
USER = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER, projects=(ProjectId("audio"),))


async def why(on: Stage, name: SessionId, *, caller: Caller = USER) -> ExplanationView:
    found = await on.queries.session_why(caller, name)
    assert found is not None
    return found


def by_kind(found: ExplanationView) -> dict[RemedyKind, RemedyView]:
    return {remedy.kind: remedy for remedy in found.remedies}


def amendment(remedy: RemedyView) -> SessionAmendment:
    """A click on a remedy sends this."""
    terms = remedy.change
    assert terms is not None
    fields: dict[str, Any] = {name: getattr(terms, name) for name in SessionAmendment.__struct_fields__}
    if terms.slots is not None:
        fields["slots"] = [(slot.slot, slot.amount) for slot in terms.slots]
    return SessionAmendment(**fields)


async def crowded(on: Stage) -> tuple[SessionId, SessionId, SessionId]:
    """One running on one of two GPUs, the head that wants both, and a long one behind it that wants one."""
    held = await on.submit(time_limit=3600)
    await on.advance()
    head = await on.submit(devices=2, time_limit=3600)
    behind = await on.submit(time_limit=7200)
    await on.advance()
    return held, head, behind


async def test_an_explanation_names_blocking_sessions_with_expected_ends_and_sessions_ahead() -> None:
    async with stage([agent("a", devices=2)]) as on:
        held, head, behind = await crowded(on)
        first, second = await why(on, head), await why(on, behind)
        assert first.waits is not None
        assert (first.waits.reason, first.position, first.ahead) == (Reason.INSUFFICIENT, 1, ())
        [holder] = first.in_the_way
        assert (holder.session_id, holder.owner, holder.gpus, holder.is_overdue) == (held, "ann", 1.0, False)
        assert first.expected_start == holder.until
        assert second.waits is not None
        assert (second.waits.reason, second.position) == (Reason.RESERVED, 2)
        assert [other.session_id for other in second.ahead] == [head]
        assert [(other.session_id, other.until) for other in second.in_the_way] == [(head, first.expected_start)]


async def with_spare_pool(on: Stage) -> tuple[SessionId, SessionId, SessionId]:
    """As `crowded`, plus a free GPU in another pool."""
    pools = {**on.state.policy.pools, PoolId("spare"): Pool()}
    await on.journal.transact(lambda draft: draft.put(replace(on.state.policy, pools=pools), "changed"), actor="ann")
    moved = replace(on.state.agents[AgentId("b")], pool=PoolId("spare"))
    await on.journal.transact(lambda draft: draft.put(moved, "pool_assigned"), actor="ann")
    return await crowded(on)


@pytest.mark.parametrize("place", [1, 2])
async def test_applying_a_remedy_starts_the_session(place: int) -> None:
    async with stage([agent("a", devices=2), agent("b", devices=1)]) as on:
        name = (await with_spare_pool(on))[place]
        remedies = by_kind(await why(on, name))
    kinds = {1: {RemedyKind.FEWER_GPUS}, 2: {RemedyKind.TIME_LIMIT, RemedyKind.POOL}}
    assert kinds[place] <= set(remedies)
    for kind, remedy in remedies.items():
        if remedy.change is None:
            assert kind is RemedyKind.WAIT
            continue
        async with stage([agent("a", devices=2), agent("b", devices=1)]) as on:
            target = (await with_spare_pool(on))[place]
            await on.sessions.update_session(USER, target, amendment(remedy), None)
            await on.advance()
            assert on.session(target).state is S.RUNNING, remedy


async def test_fewer_kernels_for_an_elastic_gang_are_compared_with_all_its_sizes() -> None:
    async with stage([agent("a", devices=4)]) as on:
        await on.submit(devices=2)
        await on.advance()
        gang = await on.submit(kernels=4, cluster_size_min=3)
        await on.advance()
        fewer = by_kind(await why(on, gang))[RemedyKind.FEWER_KERNELS]
        assert fewer.summary == "with 2 kernels instead of 3 to 4"
        await on.sessions.update_session(USER, gang, amendment(fewer), None)
        await on.advance()
        assert len(on.state.kernels_in(on.session(gang))) == 2


async def test_a_remedy_gives_its_command_and_the_delayed_sessions() -> None:
    async with stage([agent("a", devices=2)]) as on:
        _, head, behind = await crowded(on)
        limit = by_kind(await why(on, behind))[RemedyKind.TIME_LIMIT]
        assert limit.command == f"aliquot session change {behind} --time-limit 58m"
        assert (limit.summary, limit.starts_now, limit.applies) == (
            "with a time limit of 58 min instead of 2 h",
            True,
            True,
        )
        assert limit.delays == ()
        wait = by_kind(await why(on, head))[RemedyKind.WAIT]
        assert (wait.starts_now, wait.applies, wait.command) == (False, False, None)
        assert wait.starts_at == (await why(on, head)).expected_start


async def test_a_remedy_says_which_sessions_it_preempts() -> None:
    async with stage([agent("a", devices=1)]) as on:
        preemption = Preemption(preempt=PreemptScope.ANY, run_ms_min=0)
        rules = replace(on.state.policy, order="priority", preemption=preemption)
        await on.journal.transact(lambda draft: draft.put(rules, "changed"), actor="ann")
        low = await on.submit(priority="low")
        await on.advance()
        waits = await on.submit(priority="low")
        await on.advance()
        raised = by_kind(await why(on, waits))[RemedyKind.PRIORITY]
        assert raised.summary == f"with priority normal, which preempts {low}"
        assert [other.session_id for other in raised.sessions] == [low]


async def test_a_session_over_quota_gets_a_higher_quota_and_another_project_as_remedies() -> None:
    async with stage([agent("a", devices=4)]) as on:
        await on.create_project("audio")
        name = quota_id(QuotaScope.PROJECT, "default")
        quota = Quota(id=name, scope=QuotaScope.PROJECT, name="default", max_slots=SlotAmounts({"cuda.device": 2}))
        await on.journal.transact(lambda draft: draft.put(quota, "set"), actor="ann")
        holder = await on.submit(time_limit=60)
        await on.advance()
        waits = await on.submit(devices=2)
        await on.advance()
        found = await why(on, waits)
        assert found.waits is not None
        assert (found.waits.reason, found.waits.held, found.waits.limit) == (Reason.QUOTA, "1", "2")
        assert [other.session_id for other in found.in_the_way] == [holder]
        cores = Evidence(quota=name, slot="cpu", requested="1", limit="1")
        assert in_the_way(Verdict(reason=Reason.QUOTA, evidence=cores), take(on.state), now_us=0) == []
        lowered = replace(quota, version=1, max_slots=SlotAmounts({"cuda.device": 1}))
        await on.journal.transact(lambda draft: draft.put(lowered, "set"), actor="ann")
        await on.advance()
        beyond = await why(on, waits)
        assert beyond.waits is not None
        assert beyond.waits.message.endswith("It cannot start under this quota.")
        assert beyond.in_the_way == ()
        raised = replace(quota, version=2)
        await on.journal.transact(lambda draft: draft.put(raised, "set"), actor="ann")
        await on.advance()
        remedies = by_kind(found)
        assert remedies[RemedyKind.PROJECT].command == f"aliquot session change {waits} --project audio"
        higher = remedies[RemedyKind.QUOTA]
        assert higher.summary == "if an operator raises the quota of project default from 2 GPUs to 3 GPUs"
        assert higher.command == "aliquot quota set project:default --max gpu=3"
        assert not higher.applies
        assert by_kind(await why(on, waits, caller=CALLER))[RemedyKind.QUOTA].applies


async def test_a_full_quota_names_the_bookings_that_count_as_held() -> None:
    async with stage([agent("a", devices=4)]) as on:
        name = quota_id(QuotaScope.PROJECT, "default")
        quota = Quota(id=name, scope=QuotaScope.PROJECT, name="default", max_slots=SlotAmounts({"cuda.device": 2}))
        now_us, [known] = on.clock.now_us(), on.state.agents.values()
        booking = Booking(
            id=BookingId("bkg_1"),
            version=1,
            name="night",
            owner=UserId("ann"),
            state=BookingState.BOOKED,
            gpus=2,
            devices=tuple(BookedDevice(known.node_id, device.id) for device in known.devices[:2]),
            starts_us=now_us,
            ends_us=now_us + 3_600_000_000,
            created_us=now_us,
        )
        for record, what in ((quota, "set"), (booking, "booked")):
            await on.journal.transact(lambda draft, record=record, what=what: draft.put(record, what), actor="ann")
        waits = await on.submit()
        await on.advance()
        found = await why(on, waits)
        assert found.waits is not None
        assert (found.waits.reason, found.waits.held, found.in_the_way) == (Reason.QUOTA, "2", ())
        ends = f"{datetime.fromtimestamp(booking.ends_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
        assert found.waits.message.endswith(f" Held by bookings: night of ann, 2 GPUs until {ends}.")


async def test_other_users_get_the_reason_but_no_remedies_they_may_not_apply() -> None:
    async with stage([agent("a", devices=2)]) as on:
        _, head, _ = await crowded(on)
        stranger = replace(USER, user=UserId("bob"))
        found = await why(on, head, caller=stranger)
        assert found.waits is not None
        assert set(by_kind(found)) == {RemedyKind.WAIT}
        with pytest.raises(Forbidden):
            await on.sessions.update_session(stranger, head, SessionAmendment(time_limit=60), None)


async def test_an_explanation_is_cached_for_30_seconds_or_until_a_change() -> None:
    async with stage([agent("a", devices=2)]) as on:
        _, head, _ = await crowded(on)
        first = await why(on, head)
        assert await why(on, head) is first
        on.clock.advance(31)
        later = await why(on, head)
        assert later.at > first.at
        await on.submit(devices=1)
        assert (await why(on, head)).revision > later.revision


async def test_running_sessions_have_no_explanation_and_stopped_scheduling_gives_no_remedies() -> None:
    async with stage([agent("a", devices=2)]) as on:
        held, head, _ = await crowded(on)
        found = await why(on, held)
        assert (found.waits, found.remedies, found.position) == (None, (), None)
        assert await on.queries.session_why(USER, "ses_none") is None
        stopped = replace(on.state.orchestration, state=OrchestratorState.STOPPED)
        await on.journal.transact(lambda draft: draft.put(stopped, "stopped"), actor="ann")
        found = await why(on, head)
        assert found.waits is not None
        assert (found.waits.reason, found.remedies) == (Reason.STOPPED, ())


async def test_a_session_behind_a_quota_has_no_place_in_the_queue() -> None:
    async with stage([agent("a", devices=4)]) as on:
        quota = Quota(
            id=quota_id(QuotaScope.PROJECT, "audio"),
            scope=QuotaScope.PROJECT,
            name="audio",
            max_slots=SlotAmounts({"cuda.device": 1}),
        )
        await on.journal.persist(lambda draft: draft.put(quota, "changed"), actor="ann")
        await on.submit(project="audio")
        await on.advance()
        behind = await on.submit(project="audio", priority="critical")
        waiting = [await on.submit(devices=4), await on.submit(devices=4)]
        await on.advance()
        assert on.state.verdicts[behind].reason is Reason.QUOTA
        assert [on.state.position(name) for name in (behind, *waiting)] == [None, 1, 2]
        assert [*on.state.queue()] == [*waiting, behind]
        found = await why(on, waiting[1], caller=CALLER)
        assert (found.position, [other.session_id for other in found.ahead]) == (2, waiting[:1])
        found = await why(on, behind, caller=CALLER)
        assert (found.position, found.ahead) == (None, ())


def answered(on: Stage, *, sooner: RemedyKind | None = None) -> list[PendingRow]:
    """Answer the open question on changes: three hours, and one with fewer GPUs; returns the rows asked about."""
    question = on.questions.take()
    assert question is not None
    rows = [one.row for one in question.sessions]
    fewer = [row for row in rows if row.request != rows[0].request]
    now_us = on.clock.now_us()
    hours = [1 if sooner is RemedyKind.FEWER_GPUS and row in fewer[:1] else 3 for row in rows]
    question.answer.set_result(
        tuple(
            shown_forecast(row.session_id, now_us, (50, 60 * count, 600))
            for row, count in zip(rows, hours, strict=True)
        )
    )
    return rows


async def two_gpus_taken(on: Stage) -> SessionId:
    """A session waiting for two GPUs, each held by another session."""
    for _ in range(2):
        await on.submit(time_limit=3600)
    await on.advance()
    waits = await on.submit(devices=2, time_limit=3600)
    await on.advance()
    return waits


async def why_once_asked(on: Stage, name: SessionId) -> ExplanationView:
    """An explanation, after time for its question to be sent."""
    found = await why(on, name)
    await anyio.lowlevel.checkpoint()
    return found


async def test_a_remedy_that_starts_the_session_later_is_forecast_on_request() -> None:
    async with stage([agent("a", devices=2)]) as on:
        waits = await two_gpus_taken(on)
        assert (await why_once_asked(on, waits)).is_forecasting is False
        with on.questions.served():
            first = await why_once_asked(on, waits)
            assert first.is_forecasting is True
            assert RemedyKind.FEWER_GPUS not in by_kind(first)
            rows = answered(on, sooner=RemedyKind.FEWER_GPUS)
            assert rows[0] == on.state.pending[waits]
            assert {row.session_id for row in rows} == {waits}
            await anyio.lowlevel.checkpoint()
            found = await why_once_asked(on, waits)
            assert found.is_forecasting is False
            assert on.questions.take() is None
            [sooner] = [remedy for remedy in found.remedies if remedy.p50_earlier is not None]
            assert (sooner.kind, sooner.p50_earlier, sooner.starts_now, sooner.applies) == (
                RemedyKind.FEWER_GPUS,
                7200.0,
                False,
                True,
            )
            await on.sessions.update_session(USER, waits, amendment(sooner), None)
            again = await why_once_asked(on, waits)
            assert again.is_forecasting is True
            assert all(remedy.p50_earlier is None for remedy in again.remedies)


async def test_forecasts_of_remedies_are_renewed_after_a_minute_and_shown_until_then() -> None:
    async with stage([agent("a", devices=2)]) as on:
        waits = await two_gpus_taken(on)
        with on.questions.served():
            await why_once_asked(on, waits)
            answered(on, sooner=RemedyKind.FEWER_GPUS)
            await anyio.lowlevel.checkpoint()
            on.clock.advance(61)
            found = await why_once_asked(on, waits)
            assert found.is_forecasting is False
            assert RemedyKind.FEWER_GPUS in by_kind(found)
            answered(on)
            await anyio.lowlevel.checkpoint()
            assert RemedyKind.FEWER_GPUS not in by_kind(await why_once_asked(on, waits))


async def test_remedies_have_no_forecasts_while_the_forecast_process_does_not_answer() -> None:
    async with stage([agent("a", devices=2)]) as on:
        waits = await two_gpus_taken(on)
        with on.questions.served():
            await why_once_asked(on, waits)
        found = await why_once_asked(on, waits)
        assert (found.is_forecasting, [one for one in found.remedies if one.p50_earlier is not None]) == (False, [])


async def test_the_wait_remedy_names_only_sessions_that_must_end_first() -> None:
    """Another session ends earlier, on an unsuitable node."""
    async with stage([agent("a", devices=1), agent("b", devices=2)]) as on:
        wide = await on.submit(devices=2, time_limit=3600)
        await on.advance()
        small = await on.submit(time_limit=600)
        await on.advance()
        waiting = await on.submit(devices=2, time_limit=600)
        await on.advance()
        wait = by_kind(await why(on, waiting))[RemedyKind.WAIT]
        assert wait.summary == f"unchanged, when {wide} has ended"
        assert [other.session_id for other in wait.sessions] == [wide]
        assert small not in wait.summary
