"""The agent's mark for health checks: whether it is connected, as long as it runs."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from agent_harness import PATIENCE_S, AgentHarness, agent_config, wait_until
from aliquot.execution.remote.client import AgentSender
from aliquot.execution.remote.codec import Channel
from aliquot.execution.remote.connection_file import connections
from aliquot.execution.remote.executor import RemoteExecutor
from remote_in_memory import KEY, QUICK, OneKey, wire_pair

pytestmark = pytest.mark.anyio


async def test_an_agent_is_connected_from_its_welcome_to_the_end_of_the_connection(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    (agents / "renamed-since").mkdir(parents=True)
    (agents / "renamed-since" / "lock").touch()
    harness = AgentHarness(agent_config(agents / "agent-1"))
    await harness.core.open()
    assert connections(tmp_path) == {"agent-1": False}
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1)
    await executor.start()
    server, agent = wire_pair()
    talking = asyncio.create_task(AgentSender(harness.core).serve(Channel(agent), welcomed=lambda _: None))
    await asyncio.sleep(0)
    assert connections(tmp_path) == {"agent-1": False}  # its hello has no answer yet
    meeting = asyncio.create_task(executor.meet(server, agent_id=harness.core.config.id, key=KEY))
    await wait_until(lambda: connections(tmp_path) == {"agent-1": True})
    await agent.close(code=1006, reason="")
    with suppress(ExceptionGroup):
        await asyncio.wait_for(talking, PATIENCE_S)
    assert connections(tmp_path) == {"agent-1": False}
    await executor.close()
    await meeting
    await harness.core.close()
    assert connections(tmp_path) == {}
