"""Previews match the next pass, and change nothing."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot_schema.errors import ImpossibleRequest, QuotaExceeded
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Preemption, PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import NewSession, PageRequest
from aliquot_schema.resources.slots import SlotAmounts
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.preview import SessionPreview
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


async def preview(on: Stage, *, devices: int = 1, **more: Any) -> SessionPreview:
    request = {"argv": ("true",), "shell": None, "slots": [("cuda.device", str(devices))], "cluster_size": 1}
    return await on.queries.preview_session(CALLER, NewSession(**(request | more)))


def given(shown: SessionPreview) -> list[tuple[str, str, str]]:
    """Agent, device and share of each part, by rank."""
    return [
        (kernel.agent_id, part.device_id, part.amount)
        for kernel in shown.kernels
        for grant in kernel.resource_spec
        for part in grant.devices
    ]


async def test_a_preview_names_the_devices_granted_later_and_stores_nothing() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
        await on.submit()
        await on.advance()
        revision, held = on.state.revision, on.held()
        shown = await preview(on, devices=2)
        assert (shown.starts_now, shown.tasks_starting, shown.queue_position, shown.waits) == (True, 1, None, None)
        assert (on.state.revision, on.held(), [*on.state.queue()]) == (revision, held, [])
        name = await on.submit(devices=2)
        await on.advance()
        view = await on.queries.session(CALLER, name)
        assert view is not None
        assert tuple(kernel.resource_spec for kernel in view.kernels) == tuple(k.resource_spec for k in shown.kernels)
        assert {kernel.agent_id for kernel in view.kernels} == {agent for agent, _, _ in given(shown)}


async def test_a_preview_shows_the_reason_queue_position_and_expected_start() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await on.submit(time_limit=3600)
        await on.advance()
        shown = await preview(on, devices=2, estimated_duration=60)
        assert (shown.starts_now, shown.queue_position) == (False, 1)
        assert shown.waits is not None
        assert shown.waits.reason is Reason.INSUFFICIENT
        assert shown.expected_start is not None
        assert len(given(shown)) == 2
        assert shown.order_estimate is not None
        assert shown.order_estimate.seconds == 60
        limited = await preview(on, devices=2, estimated_duration=18_000, time_limit=7200)
        assert limited.order_estimate is not None
        assert limited.order_estimate.seconds == 7200
        assert limited.order_estimate.explanation == "its time limit, which is below its owner's estimate"
        await on.submit(devices=2)
        await on.advance()
        behind = await preview(on, devices=2)
        assert (behind.queue_position, behind.expected_start) == (2, None)
        assert behind.estimated_start is not None
        assert behind.estimated_start > shown.expected_start
        assert shown.estimated_start is None


async def test_a_preview_names_the_sessions_it_would_preempt_and_preempts_none() -> None:
    async with stage([agent("a", devices=1)]) as on:
        rules = replace(
            on.state.policy, order="priority", preemption=Preemption(preempt=PreemptScope.ANY, run_ms_min=0)
        )
        await on.journal.transact(lambda draft: draft.put(rules, "changed"), actor="ann")
        low = await on.submit(priority="low")
        await on.advance()
        on.clock.advance(30)
        shown = await preview(on, priority="normal")
        [displaced] = shown.displaces
        assert (displaced.session_id, displaced.owner) == (low, CALLER.user)
        assert displaced.has_run == pytest.approx(30, abs=1)
        assert shown.waits is not None
        assert shown.waits.reason is Reason.MAKING_ROOM
        assert shown.expected_start is not None
        await on.advance()
        assert on.session(low).state is S.RUNNING


async def test_a_preview_of_an_array_shows_how_many_tasks_would_start() -> None:
    async with stage([agent("a", devices=2)]) as on:
        shown = await preview(on, array="0-4")
        assert (shown.tasks_starting, shown.starts_now, len(given(shown))) == (2, True, 1)
        assert shown.waits is not None
        assert (shown.waits.blocked_by, "ses_" in shown.waits.message) == ((), False), shown.waits


async def test_a_preview_with_an_impossible_dependency_shows_the_failure() -> None:
    async with stage([agent("a", devices=1)]) as on:
        gone = await on.submit()
        await on.cancel(gone)
        shown = await preview(on, depends_on=((SessionId(gone), "after_ok"),))
        assert shown.failure is not None
        assert shown.failure.code == "dependency"
        assert (shown.starts_now, shown.kernels, shown.waits) == (False, (), None)


async def test_a_preview_is_refused_like_a_submission() -> None:
    async with stage([agent("a", devices=2)]) as on:
        with pytest.raises(ImpossibleRequest):
            await preview(on, devices=3)
        quota = Quota(id=quota_id(QuotaScope.CLUSTER, ""), scope=QuotaScope.CLUSTER, max_queued=0)
        await on.journal.transact(lambda draft: draft.put(quota, "set"), actor="ann")
        with pytest.raises(QuotaExceeded):
            await preview(on)


async def test_the_estimated_start_of_a_preview_uses_the_time_limits_of_sessions_ahead() -> None:
    """Running until 1 h; the head then runs 2 h on both devices, then the next one starts."""
    async with stage([agent("a", devices=2)]) as on:
        await on.submit(devices=2, time_limit=3600)
        await on.advance()
        await on.submit(devices=2, time_limit=7200)
        await on.advance()
        now_us = on.clock.now_us()
        shown = await preview(on, devices=2, time_limit=7200)
        assert shown.estimated_start is not None
        assert shown.estimated_start.timestamp() - now_us / 1e6 == pytest.approx(3 * 3600, abs=60)


async def test_a_session_held_back_by_a_quota_has_no_estimated_start() -> None:
    async with stage([agent("a", devices=2)]) as on:
        limit = Quota(
            id=quota_id(QuotaScope.USER, "ann"),
            scope=QuotaScope.USER,
            name="ann",
            max_slots=SlotAmounts.parse({"cuda.device": "1"}),
        )
        await on.journal.persist(lambda draft: draft.put(limit, "changed"), actor="ann")
        await on.submit(time_limit=3600)
        await on.advance()
        shown = await preview(on)
        assert (shown.starts_now, shown.expected_start, shown.estimated_start) == (False, None, None)


async def test_a_session_over_quota_has_no_queue_position() -> None:
    async with stage([agent("a", devices=2)]) as on:
        limit = Quota(
            id=quota_id(QuotaScope.USER, "ann"),
            scope=QuotaScope.USER,
            name="ann",
            max_slots=SlotAmounts.parse({"cuda.device": "1"}),
        )
        await on.journal.persist(lambda draft: draft.put(limit, "changed"), actor="ann")
        held_back = [await on.submit(time_limit=3600) for _ in range(3)]
        await on.advance()
        queued = on.queries.queue(CALLER, PageRequest(first=10)).items
        assert [(entry.position, entry.session.id, entry.session.queue_position) for entry in queued] == [
            (1, held_back[1], None),
            (2, held_back[2], None),
        ]
