"""Amendments: permitted users change a waiting session in place, checked like a submission."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot_schema.errors import (
    Forbidden,
    ImpossibleRequest,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    StateConflict,
    UnknownSlot,
    VersionConflict,
)
from aliquot_schema.ids import AgentId, PoolId, ProjectId, SessionId, UserId
from aliquot_schema.policies import Pool
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.requests import Caller, NewFallback, Role, SessionAmendment
from aliquot_schema.resources.slots import SlotAmounts
from aliquot_schema.sessions import Priority, Session
from aliquot_schema.states import SessionState as S
from allocation_devices import cores, gpus
from service_bench import agent
from service_fakes import FakeAgent
from service_stage import CALLER, Stage, during_a_pass, stage

pytestmark = pytest.mark.anyio
USER = Caller(user=UserId("ann"), request_id="req_test", role=Role.USER)


async def change(
    on: Stage, name: SessionId, *, caller: Caller = USER, version: int | None = None, **terms: Any
) -> Session:
    await on.sessions.update_session(caller, name, SessionAmendment(**terms), version)
    return on.session(name)


async def busy(on: Stage) -> SessionId:
    """A session that holds a GPU."""
    name = await on.submit()
    await on.advance()
    return name


async def test_a_changed_session_keeps_its_place_in_the_queue_and_starts_as_changed() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await busy(on)
        wide, other = await on.submit(devices=2), await on.submit(devices=2)
        before = on.session(wide)
        after = await change(on, wide, slots=[("cuda.device", "1")], time_limit=60, preemptible=True, priority="low")
        assert (after.queued_us, after.version) == (before.queued_us, before.version + 1)
        assert (after.spec.time_limit_ms, after.spec.preemptible, after.priority) == (60_000, True, Priority.LOW)
        await on.advance()
        assert on.session(wide).state is S.RUNNING
        assert on.session(other).state is S.QUEUED
        assert (await on.events())[-1].kind != "session.request_changed"
        assert "session.request_changed" in {event.kind for event in await on.events()}


async def test_default_cpus_follow_a_changed_gpu_count_and_requested_cpus_stay() -> None:
    async with stage([FakeAgent(id=AgentId("a"), devices=[*gpus(4), *cores(range(16))])]) as on:
        pools = {**on.state.policy.pools, PoolId("default"): Pool(cpu_per_gpu=4)}
        await on.journal.transact(
            lambda draft: draft.put(replace(on.state.policy, pools=pools), "changed"), actor="ann"
        )
        given, own = await on.submit(devices=4), await on.submit(slots=[("cuda.device", "4"), ("cpu", "3")])
        assert dict((await change(on, given, slots=[("gpu", "1")])).slots) == {"cuda.device": 1, "cpu": 4}
        assert dict((await change(on, own, slots=[("gpu", "1")])).slots) == {"cuda.device": 1, "cpu": 3}
        assert dict((await change(on, own, slots=[("cpu", "0")])).slots) == {"cuda.device": 1}


async def test_a_changed_size_removes_the_fallbacks() -> None:
    async with stage([agent("a", devices=2)]) as on:
        fallback = NewFallback(slots=[("cuda.device", "1")], after_s=60)
        name = await on.submit(devices=2, fallbacks=[fallback])
        kept = await change(on, name, time_limit=60)
        assert len(kept.spec.fallbacks) == 1
        assert (await change(on, name, cluster_size=2, slots=[("gpu", "1")])).spec.fallbacks == ()


async def test_a_session_that_changes_while_a_pass_decides_does_not_fall_back() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await busy(on)
        fallback = NewFallback(slots=[("cuda.device", "1")], after_s=60)
        wide = await on.submit(devices=2, fallbacks=[fallback])
        await on.advance()
        on.clock.advance(61)
        with during_a_pass(lambda: change(on, wide, slots=[("cuda.device", "2")])):
            await on.allocator.run_once()
        assert (on.session(wide).fallback_level, on.session(wide).state) == (0, S.QUEUED)
        await on.submit()


async def test_a_session_moved_to_another_project_is_counted_there() -> None:
    async with stage([agent("a", devices=1)]) as on:
        for name in ("vision", "audio"):
            await on.create_project(name)
        await busy(on)
        moved = await on.submit(project="vision")
        await change(on, moved, caller=CALLER, project="audio")
        counts = on.state.pending_counts.of_projects()
        assert [counts[ProjectId(name)].waiting for name in ("vision", "audio")] == [0, 1]
        await on.cancel(moved)
        assert {counted.waiting for counted in on.state.pending_counts.of_projects().values()} == {0}


async def test_changes_that_a_submission_would_be_refused_for_are_refused() -> None:
    async with stage([agent("a", devices=2)]) as on:
        name = await on.submit(devices=2)
        before = on.session(name)
        for error, terms in (
            (ImpossibleRequest, {"slots": [("cuda.device", "3")]}),
            (UnknownSlot, {"slots": [("quux", "1")]}),
            (InvalidRequest, {"pool": "nowhere"}),
            (InvalidRequest, {"slots": [("cuda.device", "0")]}),
            (InvalidRequest, {"project": "nowhere"}),
            (Forbidden, {"priority": "critical"}),
        ):
            caller = USER if error is Forbidden else CALLER
            with pytest.raises(error):
                await change(on, name, caller=caller, **terms)
        assert on.session(name) == before


async def test_project_members_may_change_a_session_but_only_its_owner_may_move_it() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.create_project("vision")
        await on.create_project("audio")
        name = await on.submit(project="vision")
        bob = replace(USER, user=UserId("bob"))
        member = replace(bob, projects=(ProjectId("vision"), ProjectId("audio")))
        with pytest.raises(Forbidden):
            await change(on, name, caller=bob, time_limit=60)
        await change(on, name, caller=member, time_limit=60)
        with pytest.raises(Forbidden):
            await change(on, name, caller=member, project="audio")
        with pytest.raises(Forbidden):
            await change(on, name, project="audio")
        owner = replace(USER, projects=(ProjectId("audio"),))
        assert (await change(on, name, caller=owner, project="audio")).project == "audio"


async def test_a_session_cannot_be_moved_to_a_project_with_a_full_queue() -> None:
    async with stage([agent("a", devices=1)]) as on:
        full = quota_id(QuotaScope.PROJECT, "vision")
        quota = Quota(id=full, scope=QuotaScope.PROJECT, name="vision", max_queued=1, max_slots=SlotAmounts())
        await on.journal.transact(lambda draft: draft.put(quota, "set"), actor="ann")
        await on.submit(project="vision")
        name = await on.submit()
        with pytest.raises(QuotaExceeded):
            await change(on, name, caller=CALLER, project="vision")


async def test_only_waiting_sessions_can_be_changed() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = await busy(on)
        with pytest.raises(StateConflict):
            await change(on, name, time_limit=60)
        with pytest.raises(NotFound):
            await change(on, SessionId("ses_none"), time_limit=60)
        array = await on.submit(array="0-3")
        with pytest.raises(StateConflict):
            await change(on, SessionId(f"{array}_2"), time_limit=60)


async def test_a_wrong_version_is_refused_and_an_empty_change_writes_nothing() -> None:
    async with stage([agent("a", devices=1)]) as on:
        name = await on.submit(devices=1)
        first = on.session(name)
        with pytest.raises(VersionConflict):
            await change(on, name, version=first.version + 1, time_limit=60)
        assert (await change(on, name)).version == first.version


async def test_a_change_of_an_array_applies_to_tasks_that_have_not_started() -> None:
    async with stage([agent("a", devices=3)]) as on:
        array = await on.submit(devices=2, array="0-2")
        await on.advance()
        await change(on, array, slots=[("gpu", "1")])
        await on.advance()
        assert [on.session(SessionId(f"{array}_{index}")).slots["cuda.device"] for index in (0, 1)] == [2, 1]
