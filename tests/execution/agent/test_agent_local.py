"""The local executor: several in-process agents behind the port."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import (
    PATIENCE_S,
    AgentHarness,
    ToyPlugin,
    agent_config,
    marked_processes,
    order,
    restart_agent,
    shell,
    wait_until,
)
from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.executors import LocalExecutor
from aliquot.execution.remote.connection_file import MARK
from aliquot.service.ports import Executor
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentMessage,
    AgentSilent,
    DevicesChanged,
    KernelChanged,
    KernelPhase,
    NewReadings,
)
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.devices import Device

pytestmark = pytest.mark.anyio
AGENTS = (AgentId("one"), AgentId("two"))


@pytest.fixture
def plugins() -> dict[AgentId, ToyPlugin]:
    return {agent: ToyPlugin() for agent in AGENTS}


@pytest.fixture
async def executor(
    agent_home: Path, plugins: dict[AgentId, ToyPlugin], anyio_backend: str
) -> AsyncIterator[LocalExecutor]:
    def make(agent: AgentId) -> AgentCore:
        config = replace(agent_config(agent_home.with_name(agent)), id=agent)
        return AgentCore(config, devices=DeviceSet([plugins[agent]]), now_us=lambda: time.time_ns() // 1000)

    executor = LocalExecutor({agent: lambda agent=agent: make(agent) for agent in AGENTS})
    await executor.start()
    yield executor
    await executor.close()


async def wait_for(messages: AsyncIterator[AgentMessage], kind: type[AgentMessage]) -> AgentMessage:
    async def look() -> AgentMessage:
        async for message in messages:
            if isinstance(message, kind):
                return message
        raise AssertionError("the messages have ended")

    return await asyncio.wait_for(look(), PATIENCE_S)


async def reports_until(messages: AsyncIterator[AgentMessage], kernel: KernelId, phase: KernelPhase) -> AgentId:
    while True:
        message = await wait_for(messages, KernelChanged)
        assert isinstance(message, KernelChanged)
        if (message.report.kernel_id, message.report.phase) == (kernel, phase):
            return message.agent_id


async def test_the_local_executor_implements_the_port_and_refuses_unknown_agents(executor: LocalExecutor) -> None:
    port: Executor = executor
    with pytest.raises(Unavailable):
        await port.launch(AgentId("three"), [order("true")])
    with pytest.raises(Unavailable):
        await port.inventory(AgentId("three"))


async def test_agents_join_run_and_are_restarted(executor: LocalExecutor) -> None:
    messages = executor.messages()
    joined = [await wait_for(messages, AgentJoined) for _ in AGENTS]
    assert sorted(each.inventory.agent.id for each in joined if isinstance(each, AgentJoined)) == sorted(AGENTS)
    asked = shell("echo hello; sleep 1000")
    await executor.launch(AGENTS[1], [asked])
    assert await reports_until(messages, asked.kernel_id, KernelPhase.STARTED) == AGENTS[1]
    await restart_agent(executor, AGENTS[1])
    assert isinstance(await wait_for(messages, AgentSilent), AgentSilent)
    again = await wait_for(messages, AgentJoined)
    assert isinstance(again, AgentJoined)
    assert [report.phase for report in again.inventory.kernels] == [KernelPhase.STARTED]
    async for chunk in executor.follow_log(AGENTS[1], asked.kernel_id, offset=0):
        assert chunk.data == b"hello\n"
        break
    await executor.send_signal(AGENTS[1], asked.kernel_id, epoch=1, signal=9)
    await reports_until(messages, asked.kernel_id, KernelPhase.EXITED)
    assert marked_processes(asked.kernel_id) == []


async def test_devices_that_disappear_are_reported(executor: LocalExecutor, plugins: dict[AgentId, ToyPlugin]) -> None:
    messages = executor.messages()
    assert isinstance(await wait_for(messages, NewReadings), NewReadings)
    plugins[AGENTS[0]].present = plugins[AGENTS[0]].present[:1]
    changed = await wait_for(messages, DevicesChanged)
    assert isinstance(changed, DevicesChanged)
    assert [device.health for device in changed.inventory.agent.devices] == ["healthy", "gone"]


async def test_messages_end_when_the_local_executor_is_closed(executor: LocalExecutor) -> None:
    await executor.close()
    assert isinstance((await anext(executor.messages())), AgentJoined)


async def test_health_checks_see_local_agents_as_connected(executor: LocalExecutor, agent_home: Path) -> None:
    marks = [agent_home.with_name(agent) / MARK for agent in AGENTS]
    await wait_until(lambda: all(mark.exists() for mark in marks))
    await executor.close()
    assert not any(mark.exists() for mark in marks)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"budget": 2**63 - 1}, "budget is 9223372036854775807; 1 to 100,000 is allowed"),
        ({"memory_bytes": 10**25}, "memory_bytes is 10000000000000000000000000; 0 to 1,125,899,906,842,624 is allowed"),
    ],
)
async def test_an_agent_with_an_invalid_device_is_not_started(
    agent_home: Path, odd: dict[str, int], words: str
) -> None:
    class OddPlugin(ToyPlugin):
        def discover(self) -> tuple[Device, ...]:
            return tuple(replace(device, **odd) for device in super().discover())  # type: ignore[arg-type]  # by name

    def make() -> AgentCore:
        config = replace(agent_config(agent_home), id=AGENTS[0])
        return AgentCore(config, devices=DeviceSet([OddPlugin()]), now_us=lambda: time.time_ns() // 1000)

    executor = LocalExecutor({AGENTS[0]: make})
    with pytest.raises(InvalidRequest, match="agent one cannot be started: device") as caught:
        await executor.start()
    assert words in caught.value.message
    assert [message async for message in executor.messages()] == []


async def test_an_agent_whose_start_failed_releases_its_folder(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure comes after the folder was locked; the next attempt is a new core."""

    def failing(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    agent = AgentHarness(agent_config(agent_home))
    with monkeypatch.context() as patched:
        patched.setattr("aliquot.execution.agent.agent_folder.flush_folder", failing)
        with pytest.raises(OSError, match="Input/output error"):
            await agent.open()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("agent-")] == []
    await agent.start_again()
    await agent.close()
