"""Agents that leave and return: their devices stay held until evidence comes, and no start is doubled."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot_schema.cluster.launching import AgentJoined, AgentSilent, KernelPhase, KernelReport
from aliquot_schema.errors import ImpossibleRequest, UnknownSlot
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId, SlotName
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.states import AgentState, KernelState, SessionState
from aliquot_schema.views.agents import AgentView
from service_bench import agent, gpus
from service_fakes import FakeAgent
from service_stage import CALLER, GRACE_MS, Stage, granting_only, stage

pytestmark = pytest.mark.anyio

K = KernelState
S = SessionState
A = AgentId("a")
B = AgentId("b")


def rank(session_id: SessionId, number: int = 0, *, attempt: int = 1) -> KernelId:
    return KernelId(f"{session_id}.{attempt}.{number}")


def shown(on: Stage, name: str = "a") -> AgentView:
    view = on.queries.agent(CALLER, name)
    assert view is not None
    return view


async def running(on: Stage, **asked: Any) -> SessionId:
    session_id = await on.submit(**asked)
    await on.advance()
    assert on.session(session_id).state is S.RUNNING
    return session_id


def renamed(devices: Sequence[Device], *, kind: str) -> tuple[Device, ...]:
    """The same devices with their slots renamed."""
    return tuple(
        replace(
            device,
            kind=kind,
            costs={SlotName(f"{kind}.device"): 1000, SlotName(f"{kind}.shares"): 1},
            quanta={SlotName(f"{kind}.shares"): 10},
        )
        for device in devices
    )


@pytest.mark.parametrize(
    ("gone", "holds", "state"),
    [
        (False, False, AgentState.SUSPECT),
        (False, True, AgentState.SUSPECT),
        (True, False, AgentState.LEFT),
        (True, True, AgentState.LOST),
    ],
)
async def test_a_silent_agent_gets_no_new_session_and_keeps_its_running_ones(
    gone: bool, holds: bool, state: AgentState
) -> None:
    async with stage([agent("a", devices=2)]) as on:
        session = await running(on) if holds else None
        on.executor.disconnect_agent(A, gone=gone)
        await on.settle()
        assert on.state.agents[A].state is state
        waiting = await on.submit()
        await on.advance()
        assert on.state.verdicts[waiting].reason is Reason.CLUSTER_UNAVAILABLE
        assert on.held() == ({"a-gpu-1": 1000} if holds else {})
        on.executor.reconnect_agent(A)
        await on.settle()
        assert on.state.agents[A].state is AgentState.ALIVE
        await on.advance()
        assert on.session(waiting).state is S.RUNNING
        if session is not None:
            assert on.session(session).state is S.RUNNING
            assert on.executor.agents[A].starts.count(rank(session)) == 1


async def test_silence_of_an_agent_that_said_goodbye_changes_nothing() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        await running(on)
        for name, state in ((A, AgentState.LOST), (B, AgentState.LEFT)):
            on.executor.disconnect_agent(name, gone=True)
            on.executor.disconnect_agent(name)
            await on.settle()
            assert on.state.agents[name].state is state
        await on.on_event(AgentSilent(agent_id=AgentId("unknown")), AgentSilent(agent_id=AgentId("unknown"), gone=True))


async def test_a_goodbye_during_a_pass_leaves_a_consistent_state() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        on.executor.disconnect_agent(A, gone=True)
        await asyncio.gather(on.allocator.run_once(), on.settle())
        on.check()
        assert on.state.agents[A].state in (AgentState.LEFT, AgentState.LOST)
        on.executor.reconnect_agent(A)
        await on.settle()
        await on.advance()
        assert on.session(first).state is S.RUNNING


async def test_kernels_that_ended_while_the_agent_was_silent_are_reported_on_its_return() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first, second = await running(on), await running(on)
        on.executor.disconnect_agent(A)
        await on.settle()
        on.executor.end_kernel(rank(first), code=7)
        await on.settle()
        assert on.session(first).state is S.RUNNING
        on.executor.reconnect_agent(A)
        await on.settle()
        assert (on.session(first).state, on.session(first).exit_code) == (S.FAILED, 7)
        assert on.session(second).state is S.RUNNING
        assert len(on.held()) == 1


async def test_after_a_reboot_running_sessions_are_retried_and_unstarted_orders_are_sent_again() -> None:
    async with stage([agent("a", devices=3)]) as on:
        ran = await running(on)
        canceled = await running(on)
        await on.cancel(canceled)
        on.executor.start_by_itself = False
        sent = await on.submit()
        await on.advance()
        on.executor.start_by_itself = True
        on.executor.reboot_agent(A)
        await on.settle()
        assert (on.session(ran).state, on.session(ran).retries) == (S.QUEUED, 1)
        assert on.state.leases[LeaseId(rank(ran))].evidence is EndEvidence.BOOT_ID
        assert on.state.leases[LeaseId(rank(canceled))].evidence is EndEvidence.BOOT_ID
        assert on.session(canceled).state is S.CANCELED
        assert on.session(sent).state is S.RUNNING


async def test_a_kernel_missing_from_an_agent_of_the_same_boot_keeps_its_devices() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await running(on)
        on.executor.agents[A].running.clear()
        on.executor.reconnect_agent(A)
        await on.settle()
        assert on.state.kernels[rank(first)].state is K.UNKNOWN
        assert on.session(first).state is S.RUNNING
        assert on.held() == {"a-gpu-0": 1000}
        on.executor.agents[A].running.add(rank(first))
        on.executor.reconnect_agent(A)
        await on.settle()
        assert on.state.kernels[rank(first)].state is K.RUNNING


async def test_grants_that_an_earlier_version_did_not_send_are_sent_when_the_agent_joins() -> None:
    """Earlier versions granted and launched in two transactions: a crash in between left sessions `scheduled`."""
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        with granting_only():
            await on.allocator.run_once()
        assert on.session(first).state is S.SCHEDULED
        known = KernelReport(kernel_id=rank(first), phase=KernelPhase.STARTED, at_us=1)
        inventory = on.executor.agents[A].inventory()
        on.executor.reconnect_agent(A)
        (joined,) = on.executor.take_messages()
        await on.on_event(replace(joined, inventory=replace(inventory, kernels=(known,))))
        await on.settle()
        assert on.session(first).state is S.RUNNING


async def test_a_gang_with_a_failed_rank_starts_no_further_ranks() -> None:
    async with stage([agent("a", devices=3)]) as on:
        on.executor.start_by_itself = False
        gang = await on.submit(kernels=3)
        await on.advance()
        fake = on.executor.agents[A]
        fake.ended[rank(gang, 0)] = KernelReport(
            kernel_id=rank(gang, 0), phase=KernelPhase.EXITED, at_us=2, exit_code=5, evidence=EndEvidence.EXIT_FILE
        )
        fake.orders.clear()
        on.executor.start_by_itself = True
        on.executor.reconnect_agent(A)
        await on.settle()
        assert fake.starts == []
        assert set(fake.stopped) == {rank(gang, 1), rank(gang, 2)}
        assert {on.state.kernels[rank(gang, number)].state for number in (1, 2)} == {K.STOPPING}


async def test_orders_carry_the_configured_grace_also_when_they_are_sent_again() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.executor.start_by_itself = False
        kernel = rank(await on.submit(time_limit=60))
        await on.advance()
        fake = on.executor.agents[A]
        assert fake.orders[kernel].grace_ms == GRACE_MS
        fake.orders.clear()
        on.executor.reconnect_agent(A)
        await on.settle()
        assert fake.orders[kernel].grace_ms == GRACE_MS


async def test_kernels_without_a_lease_are_stopped() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.executor.agents[A].running.add(KernelId("ses_old.1.0"))
        on.executor.reconnect_agent(A)
        await on.settle()
        assert on.executor.agents[A].stopped == ["ses_old.1.0"]


async def test_a_device_that_disappears_while_it_is_held_is_kept_as_leaving_until_it_is_free() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await running(on)
        on.executor.change_devices(A, gpus(1))
        await on.settle()
        assert [(d.id, d.health) for d in shown(on).devices] == [
            ("a-gpu-0", DeviceHealth.HEALTHY),
            ("a-gpu-1", DeviceHealth.LEAVING),
        ]
        assert shown(on).gpu_alloc_map == '{"a-gpu-0": "0.00", "a-gpu-1": "1.00"}'
        assert {one.slot: one.amount for one in shown(on).occupied}["cuda.device"] == "0"
        with pytest.raises(ImpossibleRequest):
            await on.submit(devices=2)
        on.executor.end_kernel(rank(first))
        await on.settle()
        on.executor.change_devices(A, gpus(1))
        await on.settle()
        assert [device.id for device in shown(on).devices] == ["a-gpu-0"]
        on.executor.change_devices(A, gpus(2))
        await on.settle()
        await running(on, devices=2)


async def test_an_unhealthy_device_gets_no_new_session_and_keeps_its_current_holder() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await running(on)
        good, held = gpus(2)
        on.executor.change_devices(A, (good, replace(held, health=DeviceHealth.UNHEALTHY)))
        await on.settle()
        assert on.session(first).state is S.RUNNING
        wide, small = await on.submit(devices=2), await on.submit()
        await on.advance()
        assert on.state.verdicts[wide].reason is Reason.NO_AGENT
        assert on.state.verdicts[wide].evidence.devices == ("a-gpu-1",)
        assert on.session(small).state is S.RUNNING


async def test_held_devices_move_with_the_agent_to_a_new_node_id() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = await running(on)
        on.executor.agents[A].node = "elsewhere"
        on.executor.reconnect_agent(A)
        await on.settle()
        assert dict(on.state.used) == {"node-a": {}, "elsewhere": {"a-gpu-1": 1000}}
        second = await running(on)
        waiting = await on.submit()
        await on.advance()
        assert on.session(waiting).state is S.QUEUED
        on.executor.end_kernel(rank(first))
        on.executor.end_kernel(rank(second))
        await on.settle()
        assert on.held() == {}


async def test_two_agents_of_a_node_never_oversubscribe_a_device_and_both_show_who_holds_it() -> None:
    async with stage([agent("a", devices=2, node="n"), agent("b", devices=2, node="n")]) as on:
        gang = await running(on, kernels=2)
        waiting = await on.submit()
        await on.advance()
        assert on.state.verdicts[waiting].reason is Reason.INSUFFICIENT
        assert {holder.session_id for device in shown(on, "b").devices for holder in device.holders} == {gang}
        assert shown(on, "a").gpu_alloc_map == '{"n-gpu-0": "1.00", "n-gpu-1": "1.00"}'
        assert shown(on, "b").gpu_alloc_map == '{"n-gpu-0": "1.00", "n-gpu-1": "1.00"}'
        for name in ("a", "b"):
            assert {one.slot: one.amount for one in shown(on, name).occupied}["cuda.device"] == "2"
        (devices,) = [one for one in on.queries.cluster(CALLER, None).capacity if one.slot == "cuda.device"]
        assert (devices.total, devices.allocated) == ("2.00", "2.00")


async def test_the_allocation_map_of_an_agent_lists_only_its_own_devices() -> None:
    half = dataclasses.replace(agent("b", devices=2, node="n"), devices=gpus(2, agent="n")[1:])
    async with stage([agent("a", devices=2, node="n"), half]) as on:
        await running(on, devices=2)
        assert shown(on, "a").gpu_alloc_map == '{"n-gpu-0": "1.00", "n-gpu-1": "1.00"}'
        assert shown(on, "b").gpu_alloc_map == '{"n-gpu-1": "1.00"}'


async def test_sessions_survive_devices_and_slots_that_change_during_the_life_of_an_agent() -> None:
    """An agent joins, loses its plugin, is restarted with a renamed slot while kernels run, and leaves."""
    async with stage([agent("b", devices=1)]) as on:
        with pytest.raises(ImpossibleRequest):
            await on.submit(devices=2)
        on.executor.add_agent(agent("a", devices=2))
        await on.settle()
        both = await running(on, devices=2)
        on.executor.change_devices(A, ())
        await on.settle()
        assert shown(on).capacity == ()
        assert shown(on).gpu_alloc_map == '{"a-gpu-0": "1.00", "a-gpu-1": "1.00"}'
        assert on.session(both).state is S.RUNNING

        fake = on.executor.agents[A]
        fake.devices = renamed(gpus(2), kind="gpu")
        on.executor.reconnect_agent(A)
        await on.settle()
        assert on.held() == {"a-gpu-0": 1000, "a-gpu-1": 1000}
        assert set(on.state.slots) == {"cuda.device", "cuda.shares", "gpu.device", "gpu.shares"}
        waiting = await on.submit(slots=[("gpu.shares", "0.5")])
        await on.advance()
        assert on.state.verdicts[waiting].reason is Reason.INSUFFICIENT
        with pytest.raises(UnknownSlot):
            await on.submit(slots=[("tpu.device", "1")])
        with pytest.raises(ImpossibleRequest):
            await on.submit(devices=2)
        on.executor.end_kernel(rank(both))
        await on.settle()
        await on.advance()
        assert on.session(waiting).state is S.RUNNING
        assert shown(on).gpu_alloc_map == '{"a-gpu-0": "0.00", "a-gpu-1": "0.50"}'

        on.executor.disconnect_agent(A, gone=True)
        await on.settle()
        assert on.state.agents[A].state is AgentState.LOST
        on.executor.reconnect_agent(A)
        on.executor.end_kernel(rank(waiting))
        await on.settle()
        on.executor.disconnect_agent(A, gone=True)
        await on.settle()
        assert on.state.agents[A].state is AgentState.LEFT
        with pytest.raises(ImpossibleRequest):
            await on.submit(slots=[("gpu.shares", "0.5")])
        assert await running(on)


async def test_a_rejoining_agent_without_changes_writes_no_event() -> None:
    async with stage([FakeAgent(id=A, devices=gpus(1))]) as on:
        before = on.state.revision
        on.executor.reconnect_agent(A)
        on.executor.change_devices(A, gpus(1))
        await on.settle()
        assert on.state.revision == before


async def test_devices_that_reach_each_other_are_shown_as_groups() -> None:
    one, two, three, four, alone = gpus(5)
    pairs = ((one, two), (two, one), (three, four))  # a link counts in both directions
    linked = [replace(device, linked_to=(other.id,)) for device, other in pairs]
    async with stage([FakeAgent(id=A, devices=(*linked, four, alone))]) as on:
        devices = shown(on).devices
        groups = [device.link_group for device in devices]
        assert groups[0] == groups[1] is not None
        assert (groups[2] is not None, groups[2] != groups[0]) == (True, True)
        assert groups[3:] == [groups[2], None]
        assert [device.linked_to for device in devices[:2]] == [(two.id,), (one.id,)]


async def test_agents_of_different_nodes_that_join_together_share_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage([]) as on:
        commits: list[str] = []
        persist = on.journal.persist

        async def counted(change: Any, **more: Any) -> Any:
            commits.append(more["actor"])
            return await persist(change, **more)

        monkeypatch.setattr(on.journal, "persist", counted)
        fakes = [agent("a", devices=1), agent("b", devices=1), *(agent(name, devices=1, node="n") for name in "cd")]
        await on.on_event(*(AgentJoined(inventory=fake.inventory()) for fake in fakes))
        assert len(commits) == 2
        assert {name for name, found in on.state.agents.items() if found.state is AgentState.ALIVE} == {*"abcd"}
        commits.clear()
        await on.on_event(*(AgentSilent(agent_id=AgentId(name)) for name in "abcd"))
        assert len(commits) == 1
        assert {found.state for found in on.state.agents.values()} == {AgentState.SUSPECT}


async def test_after_a_long_pass_agent_reports_are_collected_until_a_submission_arrives() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.allocator._asked.clear()
        on.allocator._rest_from_agents(0.1)
        on.allocator.wake_for_agents()
        waiting = asyncio.create_task(on.allocator._until_agents_count())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        await on.submit()
        await asyncio.wait_for(waiting, 0.5)
        on.allocator._asked.clear()
        on.allocator._rest_from_agents(0.001)
        on.allocator.wake_for_agents()
        await asyncio.wait_for(on.allocator._until_agents_count(), 0.5)
