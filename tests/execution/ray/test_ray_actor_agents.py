"""Agents of an actor, reached through the gateway's parts: late or repeated orders, changing connections."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import PATIENCE_S, new_kernel, shell
from aliquot.execution.devices.partitioning import Division
from aliquot.execution.remote.agent_setup import AgentOptions
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentSilent,
    KernelChanged,
    KernelPhase,
    KernelReport,
    LaunchOrder,
)
from aliquot_schema.ids import AgentId, KernelId
from ray_in_process import InProcessRay, in_process_ray

pytestmark = pytest.mark.anyio

AGENT = AgentId("demo-1")


def order(script: str) -> LaunchOrder:
    """Without devices: the mock ones are not tested here."""
    return replace(shell(script), spec={})


async def wait_for_report(on: InProcessRay, kernel: KernelId, phase: KernelPhase) -> KernelReport:
    def found() -> list[KernelReport]:
        reports = [message.report for message in on.received.messages if isinstance(message, KernelChanged)]
        return [report for report in reports if report.kernel_id == kernel and report.phase is phase]

    async with on.received.message_arrived:
        await asyncio.wait_for(on.received.message_arrived.wait_for(found), PATIENCE_S)
    return found()[-1]


async def test_a_kernel_on_ray_is_launched_followed_and_its_end_is_reported(
    agent_home: Path, monkeypatch: object
) -> None:
    async with in_process_ray(agent_home, monkeypatch=monkeypatch) as on:
        await on.connect(AGENT)
        await on.received.wait_for(AgentJoined)
        asked = order("seq 1 200000; exit 7")
        await on.executor.launch(AGENT, [asked])
        chunks = [chunk async for chunk in on.executor.follow_log(AGENT, asked.kernel_id, offset=0)]
        assert b"".join(chunk.data for chunk in chunks) == b"".join(b"%d\n" % number for number in range(1, 200_001))
        assert (await wait_for_report(on, asked.kernel_id, KernelPhase.EXITED)).exit_code == 7


async def test_a_start_that_is_delivered_twice_starts_once(agent_home: Path, monkeypatch: object) -> None:
    async with in_process_ray(agent_home, monkeypatch=monkeypatch) as on:
        await on.connect(AGENT)
        await on.received.wait_for(AgentJoined)
        marks = agent_home.parent / "marks"
        marks.touch()
        marks.chmod(0o666)
        asked = order(f"echo x >> {marks}; exit 3")
        await asyncio.gather(*(on.executor.launch(AGENT, [asked]) for _ in range(2)))
        await wait_for_report(on, asked.kernel_id, KernelPhase.EXITED)
        await on.connect(AGENT)
        await on.received.wait_for(AgentJoined, count=2)
        await on.executor.launch(AGENT, [asked])
        assert (await on.executor.inventory(AGENT)).kernels[0].exit_code == 3
        assert marks.read_text() == "x\n"


async def test_a_start_that_comes_after_its_stop_starts_nothing(agent_home: Path, monkeypatch: object) -> None:
    async with in_process_ray(agent_home, monkeypatch=monkeypatch) as on:
        await on.connect(AGENT)
        await on.received.wait_for(AgentJoined)
        marks = agent_home.parent / "marks"
        asked = replace(order(f"touch {marks}"), kernel_id=new_kernel())
        await on.executor.stop(AGENT, asked.kernel_id, epoch=1, grace_ms=100)
        await on.executor.launch(AGENT, [asked])
        inventory = await on.executor.inventory(AGENT)
        phases = {report.kernel_id: report.phase for report in inventory.kernels}
        assert phases[asked.kernel_id] is KernelPhase.REFUSED
        assert not marks.exists()


async def test_a_newer_connection_takes_the_place_of_an_older_one(agent_home: Path, monkeypatch: object) -> None:
    async with in_process_ray(agent_home, monkeypatch=monkeypatch) as on:
        old = await on.connect(AGENT)
        await on.received.wait_for(AgentJoined)
        await on.connect(AGENT)
        await on.received.wait_for(AgentJoined, count=2)
        assert await on.hosting.connect(AGENT, old.connection) == "there is a newer connection"
        assert not on.hosting.bring(AGENT, old.connection, [b"\0late"])
        assert await on.hosting.fetch(AGENT, old.connection) is None
        assert (await on.executor.inventory(AGENT)).agent.id == AGENT


async def test_an_agent_known_to_be_gone_is_suspect_immediately(agent_home: Path, monkeypatch: object) -> None:
    async with in_process_ray(agent_home, monkeypatch=monkeypatch) as on:
        relay = await on.connect(AGENT)
        await on.received.wait_for(AgentJoined)
        await on.multiplexer.lost(relay)
        assert await on.received.wait_for(AgentSilent) == AgentSilent(agent_id=AGENT)


async def test_a_node_that_is_divided_has_all_its_agents_in_one_actor(agent_home: Path, monkeypatch: object) -> None:
    division = Division.checked(
        {"resource": {"allocation-mode": "auto-split"}, "agents": [{"id": "left"}, {"id": "right"}]}, source="test"
    )
    options = AgentOptions(data_folder=agent_home, demo_node=1, division=division)
    async with in_process_ray(agent_home, monkeypatch=monkeypatch, options=options) as on:
        assert (await on.hosting.describe())["agents"] == ["left", "right"]
        for agent_id in ("left", "right"):
            await on.connect(agent_id)
        await on.received.wait_for(AgentJoined, count=2)
        left, right = [await on.executor.inventory(AgentId(name)) for name in ("left", "right")]
        gpus = [{device.id for device in each.agent.devices if device.kind == "cuda"} for each in (left, right)]
        assert [len(each) for each in gpus] == [4, 4]
        assert not gpus[0] & gpus[1]
