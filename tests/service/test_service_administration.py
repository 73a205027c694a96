"""Actions of operators on agents last over restarts, and are refused to others."""

import pytest
from msgspec.structs import replace

from aliquot.service.admin.admin import Administration
from aliquot.service.agents.doctor import Examination, InspectionResult
from aliquot.service.quotas import Quotas
from aliquot_schema.bookings import BookedDevice, BookingState
from aliquot_schema.cluster.launching import AgentSilent
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound, StateConflict, Unavailable, UnknownSlot
from aliquot_schema.ids import AgentId, LeaseId, SessionId
from aliquot_schema.policies import Pool
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Role
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import AgentState, SessionState
from aliquot_schema.views.admin import NewQuota
from booking_scenes import booking
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

S = SessionState
A = AgentId("a")
POOLS = {"default": Pool(), "big": Pool()}


def office(on: Stage) -> Administration:
    return Administration(state=on.state, journal=on.journal, clock=on.clock)


async def running(on: Stage, **asked: object) -> SessionId:
    session_id = await on.submit(**asked)
    await on.advance()
    assert on.session(session_id).state is S.RUNNING
    return session_id


async def test_a_draining_agent_starts_no_new_session_and_keeps_running_ones() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await running(on)
        changed = await office(on).agents.drain_agent(CALLER, "a", note="new fan", evicts=False)
        assert (changed.agent.draining, changed.agent.drained, changed.agent.note) == (True, False, "new fan")
        second = await on.submit()
        await on.advance()
        assert (on.session(first).state, on.session(second).state) == (S.RUNNING, S.QUEUED)
        on.executor.end_kernel(on.live()[0])  # type: ignore[arg-type]  # a kernel's id
        await on.settle()
        view = on.queries.agent(CALLER, "a")
        assert view is not None
        assert view.drained
        resumed = await office(on).agents.resume_agent(CALLER, "a")
        assert (resumed.agent.draining, resumed.agent.note) == (False, None)
        await on.advance()
        assert on.session(second).state is S.RUNNING


async def test_settings_made_by_operators_survive_a_new_registration_of_the_agent() -> None:
    async with stage([agent("a", devices=2)]) as on:
        admin = office(on)
        await admin.policy.update_policy(CALLER, {"pools": POOLS}, None)
        await admin.agents.drain_agent(CALLER, "a", note="moved", evicts=False)
        await admin.agents.label_agent(CALLER, "a", [("zone", "north")])
        await admin.agents.assign_agent_pool(CALLER, "a", "big")
        await admin.agents.set_agent_schedulable(CALLER, "a", schedulable=False, note=None)
        on.executor.reboot_agent(A)
        await on.settle()
        known = on.state.agents[A]
        assert (known.boot_id, known.draining, known.note, known.schedulable) == ("boot-1+", True, "moved", False)
        assert (dict(known.labels), known.pool) == ({"zone": "north"}, "big")


async def test_a_repeated_administrative_change_writes_no_event() -> None:
    async with stage([agent("a", devices=2)]) as on:
        for _ in range(2):
            await office(on).agents.drain_agent(CALLER, "a", note=None, evicts=False)
            await office(on).agents.label_agent(CALLER, "a", [("zone", "north")])
        revision = on.state.revision
        await office(on).agents.label_agent(CALLER, "a", [("zone", "north")])
        assert on.state.revision == revision


async def test_a_drain_with_eviction_preempts_running_sessions() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await running(on)
        await office(on).agents.drain_agent(CALLER, "a", note=None, evicts=True)
        session = on.session(first)
        assert session.state is S.PREEMPTING
        assert session.preemption is not None
        assert (session.preemption.cause, session.preemption.by_session) == (PreemptionCause.DRAIN, None)
        await on.settle()
        on.executor.end_kernel(on.live()[0], code=None, signal=15)  # type: ignore[arg-type]  # a kernel's id
        await on.settle()
        assert on.session(first).state is S.QUEUED
        assert on.held() == {}


async def test_an_operator_can_release_only_a_lost_agent() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await running(on)
        with pytest.raises(StateConflict, match="only a lost agent"):
            await office(on).agents.release_lost_agent(CALLER, "a")
        on.executor.silent.add(A)
        await on.on_event(AgentSilent(agent_id=A, lost=True))
        assert on.state.agents[A].state is AgentState.LOST
        assert on.held() != {}
        kernel_id = on.live()[0]
        await office(on).agents.release_lost_agent(CALLER, "a")
        assert on.held() == {}
        assert on.state.leases[LeaseId(kernel_id)].evidence is EndEvidence.OPERATOR
        assert on.state.agents[A].state is AgentState.LEFT
        assert (on.session(first).state, on.session(first).retries) == (S.QUEUED, 1)
        on.check()


class AsksNobody:
    async def inspect_all(self) -> InspectionResult:
        return InspectionResult(asked=(), differences=())

    async def inspect(self, agent_id: AgentId) -> None:
        raise AssertionError(f"{agent_id} is not to be asked by itself")


async def test_the_doctor_reports_silent_agents_but_not_those_that_left() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
        on.executor.silent.add(A)
        await on.on_event(AgentSilent(agent_id=A, gone=True))
        assert on.state.agents[A].state is AgentState.LEFT
        doctor = Examination(state=on.state, journal=on.journal, clock=on.clock, inspector=AsksNobody)
        assert (await doctor.examine(CALLER)).silent == ("b",)


@pytest.mark.parametrize(
    ("leader", "says"), [("http://b:8090", "leader, http://b:8090"), (None, "no server is leading")]
)
async def test_the_doctor_of_a_follower_names_the_leader(leader: str | None, says: str) -> None:
    async with stage([agent("a", devices=2)]) as on:
        doctor = Examination(state=on.state, journal=on.journal, clock=on.clock, leader=lambda: leader)
        with pytest.raises(Unavailable, match=says):
            await doctor.examine(CALLER)


async def test_releasing_a_lost_agent_stops_the_other_kernels_of_its_gang() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=2)]) as on:
        await running(on, devices=2, kernels=2)
        on.executor.silent.add(A)
        await on.on_event(AgentSilent(agent_id=A, lost=True))
        await office(on).agents.release_lost_agent(CALLER, "a")
        await on.dispatch.close()
        other = on.executor.agents[AgentId("b")]
        assert len(other.stopped) == 1
        assert on.live() == [str(other.stopped[0])]


async def test_only_operators_may_change_agents_policy_and_quotas() -> None:
    user = replace(CALLER, role=Role.USER)
    async with stage([agent("a", devices=2)]) as on:
        admin, revision = office(on), on.state.revision
        for act in (
            admin.agents.drain_agent(user, "a", note=None, evicts=True),
            admin.agents.resume_agent(user, "a"),
            admin.agents.set_agent_schedulable(user, "a", schedulable=False, note=None),
            admin.agents.label_agent(user, "a", []),
            admin.agents.assign_agent_pool(user, "a", "default"),
            admin.agents.release_lost_agent(user, "a"),
            admin.policy.update_policy(user, {"order": "fcfs"}, None),
            admin.quotas.set_quota(user, NewQuota(scope=QuotaScope.CLUSTER, max_queued=1), None),
            admin.quotas.remove_quota(user, QuotaScope.CLUSTER, "", None),
        ):
            with pytest.raises(Forbidden):
                await act
        assert on.state.revision == revision


async def test_a_pool_must_be_in_the_policy_and_cannot_be_removed_while_agents_use_it() -> None:
    async with stage([agent("a", devices=2)]) as on:
        admin = office(on)
        with pytest.raises(InvalidRequest, match="pools: default"):
            await admin.agents.assign_agent_pool(CALLER, "a", "big")
        await admin.policy.update_policy(CALLER, {"pools": POOLS}, None)
        await admin.agents.assign_agent_pool(CALLER, "a", "big")
        with pytest.raises(StateConflict, match="a are in it"):
            await admin.policy.update_policy(CALLER, {"pools": {"default": Pool()}}, None)
        await admin.agents.assign_agent_pool(CALLER, "a", "default")
        await admin.policy.update_policy(CALLER, {"pools": {"default": Pool()}}, None)
        assert list(on.state.policy.pools) == ["default"]


async def test_a_quota_of_an_unknown_slot_and_a_label_of_an_unknown_agent_are_refused() -> None:
    async with stage([agent("a", devices=2)]) as on:
        with pytest.raises(UnknownSlot):
            await office(on).quotas.set_quota(
                CALLER, NewQuota(scope=QuotaScope.USER, name="ann", max_slots=[("tpu.device", "1")]), None
            )
        with pytest.raises(NotFound):
            await office(on).agents.label_agent(CALLER, "z", [])


async def test_usage_reports_gpu_hours_and_share_per_user() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await running(on)
        on.clock.advance(3600)
        (used,) = office(on).quotas.usage(CALLER, user="ann", project=None)
        assert used.gpu_hours == pytest.approx(1, rel=1e-3)
        assert (used.user, used.share) == ("ann", 1.0)
        assert office(on).quotas.usage(CALLER, user="bob", project=None) == ()


async def test_quotas_show_current_use_and_waiting_sessions() -> None:
    async with stage([agent("a", devices=4)]) as on:
        await on.create_project("vision")
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        [cluster] = quotas.quota_use(CALLER)
        assert (cluster.scope, cluster.name, cluster.held, cluster.waiting) == (QuotaScope.CLUSTER, "", (), 0)
        await on.submit(devices=3, project="vision")
        await on.advance()
        await on.submit(devices=2, project="vision")
        await on.submit(devices=4)
        await on.advance()
        on.clock.advance(1800)
        found = {f"{use.scope}:{use.name}": use for use in quotas.quota_use(CALLER)}
        assert set(found) == {"cluster:", "user:ann", "project:vision", "project:default"}
        for name, held, waiting in (("cluster:", "3.00", 2), ("user:ann", "3.00", 2), ("project:vision", "3.00", 1)):
            assert [(slot.slot, slot.amount) for slot in found[name].held] == [("cuda.shares", held)]
            assert found[name].waiting == waiting
            assert found[name].gpu_hours_month == pytest.approx(1.5, abs=0.01)
        assert (found["project:default"].held, found["project:default"].waiting) == ((), 1)


async def test_the_use_of_quotas_counts_the_gpus_of_a_booking_from_its_start_on() -> None:
    """As the scheduler counts them: used or not, and those of its sessions once."""
    async with stage([agent("a", devices=4)]) as on:
        quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
        starts = on.clock.now_us() + 60_000_000
        known = on.state.agents[A]
        asked = booking("exp", starts_min=0, gpus=2, owner=CALLER.user, state=BookingState.BOOKED, version=0)
        devices = tuple(BookedDevice(known.node_id, device.id) for device in known.devices[:2])
        booked = replace(asked, devices=devices, starts_us=starts, ends_us=starts + 3_600_000_000)
        await on.journal.transact(lambda draft: draft.put(booked, "booked"), actor="ann")

        def held() -> dict[str, list[str]]:
            uses = quotas.quota_use(CALLER)
            return {f"{use.scope}:{use.name}": [slot.amount for slot in use.held] for use in uses}

        assert held() == {"cluster:": []}
        on.clock.advance(61)
        await on.submit(booking="exp")
        await on.submit()
        await on.advance()
        assert held() == {"cluster:": ["3.00"], "user:ann": ["3.00"], "project:default": ["3.00"]}
