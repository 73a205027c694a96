"""A partitioned node that is now shared: memory held as partitions is not granted again with the whole."""

import dataclasses

import pytest

from aliquot_schema.cluster.launching import AgentJoined
from aliquot_schema.ids import AgentId, DeviceId, SessionId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.states import SessionState
from service_fakes import FakeAgent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

GIB = 1 << 30
MEM = SlotName("mem")


def memory(size: int, *, owner: str = "") -> Device:
    return Device(
        id=DeviceId(f"mem0/{owner}" if owner else "mem0"),
        name="mem0",
        kind="mem",
        model="Memory",
        budget=size,
        costs={MEM: 1},
        quanta={},
        memory_bytes=size,
        parent=DeviceId("mem0") if owner else None,
    )


def divided() -> list[FakeAgent]:
    names = ("a", "b")
    return [FakeAgent(id=AgentId(name), devices=(memory(GIB, owner=name),), node="n") for name in names]


async def submit(on: Stage, size: str) -> SessionId:
    session = await on.submit(slots=[("mem", size)])
    await on.advance()
    return session


def share(on: Stage, agents: list[FakeAgent]) -> None:
    """Both agents now report the whole GPU."""
    for agent in agents:
        agent.devices = (memory(2 * GIB),)


async def test_a_whole_device_is_not_granted_while_its_old_partitions_are_held() -> None:
    agents = divided()
    async with stage(agents) as on:
        old = [await submit(on, "1g") for _ in agents]
        share(on, agents)
        for agent in agents:  # the first to join does not know yet that the other has changed too
            await on.on_event(AgentJoined(inventory=agent.inventory()))
            fresh = await submit(on, "1500m")
            assert on.session(fresh).state is SessionState.QUEUED
            await on.cancel(fresh)
        by_id = {device.id: device.health for device in on.state.agents[AgentId("a")].devices}
        assert by_id == {"mem0": DeviceHealth.HEALTHY, "mem0/a": DeviceHealth.LEAVING, "mem0/b": DeviceHealth.LEAVING}
        waiting = await submit(on, "1500m")
        for session_id in old:
            assert on.session(waiting).state is SessionState.QUEUED
            (kernel_id,) = on.state.kernels_of[session_id]
            on.executor.end_kernel(kernel_id)
            await on.settle()
            await on.advance()
        assert on.session(waiting).state is SessionState.RUNNING
        for agent in agents:
            await on.on_event(AgentJoined(inventory=agent.inventory()))
            assert [device.id for device in on.state.agents[agent.id].devices] == ["mem0"]


async def test_partitions_are_not_granted_while_the_whole_device_is_held() -> None:
    agents = [dataclasses.replace(agent, devices=(memory(2 * GIB),)) for agent in divided()]
    async with stage(agents) as on:
        old = await submit(on, "1g")
        for agent, fresh in zip(agents, divided(), strict=True):
            agent.devices = fresh.devices
            await on.on_event(AgentJoined(inventory=agent.inventory()))
        waiting = await submit(on, "512m")
        assert on.session(waiting).state is SessionState.QUEUED
        (kernel_id,) = on.state.kernels_of[old]
        on.executor.end_kernel(kernel_id)
        await on.settle()
        await on.advance()
        assert on.session(waiting).state is SessionState.RUNNING
