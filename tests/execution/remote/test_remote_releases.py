"""Two adjacent releases work together, whichever side is newer; others are refused with a message."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from agent_harness import PATIENCE_S, AgentHarness, agent_config, shell
from aliquot.execution.remote.codec import Channel, ChannelClosed, ProtocolError
from aliquot.execution.remote.dialing import introduce
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.session import AgentSession, Outbox, Refused
from aliquot_schema.cluster.agent_protocol import (
    Acknowledged,
    Answer,
    Forget,
    Heartbeat,
    KernelChangeReport,
    Launch,
    Protocols,
    Refusal,
    StateReport,
    Stop,
    TellInventory,
    Welcome,
)
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentJoined,
    Inventory,
    KernelChanged,
    KernelPhase,
    KernelReport,
    LaunchOrder,
)
from aliquot_schema.ids import NodeId
from aliquot_schema.resources.confinement import ABILITIES
from aliquot_schema.resources.leases import EndEvidence
from remote_future import PROTOCOLS_NEXT, FutureWire
from remote_in_memory import AGENT, KEY, QUICK, MessageRecorder, OneKey, hello, wire_pair

pytestmark = pytest.mark.anyio


def welcome(protocol: int) -> Welcome:
    return Welcome(protocol=protocol, software_version="aliquot 2", beat_s=30.0, now_us=1)


async def test_a_current_agent_works_with_a_server_of_the_next_release(agent_home: Path) -> None:
    harness = AgentHarness(agent_config(agent_home))
    await harness.core.open()
    here, there = wire_pair()
    server = FutureWire(here)
    channel, outbox = Channel(there), Outbox()

    async def talk() -> None:
        told = await introduce(channel, hello())
        assert told.protocol == 1
        with suppress(ExceptionGroup):
            await AgentSession(harness.core, channel, outbox=outbox, beat_s=told.beat_s).run()

    async def pass_on() -> None:
        async for message in harness.core.reports():
            outbox.add(message)

    talking, passing = asyncio.create_task(talk()), asyncio.create_task(pass_on())
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert (await server.on_event()).protocols.newest == 1
            await server.say(welcome(1))
            await server.say(Heartbeat())
            assert (await server.until(StateReport)).inventory.agent.id == AGENT
            await server.say(Acknowledged(number=1))
            asked = shell("exit 7")
            await server.say(Launch(request=1, orders=(asked,)))
            assert (await server.until(Answer)).failure is None
            while (told := (await server.until(KernelChangeReport)).report).phase is not KernelPhase.EXITED:
                pass
            assert (told.kernel_id, told.exit_code) == (asked.kernel_id, 7)
            await server.say(Forget(kernel_ids=(asked.kernel_id,)))
            await server.say(Stop(request=2, kernel_id=shell("true").kernel_id, epoch=1, grace_ms=0))
            assert (await server.until(Answer)).failure is None
            assert (await harness.core.inventory()).kernels[0].evidence is EndEvidence.TOMBSTONE
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        await harness.core.close()
        await passing


async def test_a_current_server_works_with_an_agent_of_the_next_release() -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1)
    received = MessageRecorder(executor)
    here, there = wire_pair()
    agent = FutureWire(there)
    meeting = asyncio.create_task(executor.meet(here, agent_id=AGENT, key=KEY))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await agent.say(hello(protocols=PROTOCOLS_NEXT, order_fields=LaunchOrder.__struct_fields__))
            assert (await agent.until(Welcome)).protocol == 1
            described = Agent(
                id=AGENT, version=0, node_id=NodeId("n"), hostname="h", registered_us=0, state_changed_us=0
            )
            await agent.say(StateReport(number=1, inventory=Inventory(agent=described)))
            joined = await received.wait_for(AgentJoined)
            assert isinstance(joined, AgentJoined)
            assert joined.inventory.agent == described
            order = shell("true")
            launching = asyncio.create_task(executor.launch(AGENT, [order]))
            asked = await agent.until(Launch)
            assert asked.orders == (order,)
            await agent.say(Answer(request=asked.request))
            await launching
            report = KernelReport(kernel_id=order.kernel_id, phase=KernelPhase.STARTED, at_us=1)
            await agent.say(KernelChangeReport(number=2, report=report))
            assert await received.wait_for(KernelChanged) == KernelChanged(agent_id=AGENT, report=report)
            assert (await agent.until(Acknowledged)).number >= 1
            asking = asyncio.create_task(executor.has_account(AGENT, "anna"))
            wanted = await agent.until(TellInventory)
            assert wanted.account == "anna"
            # An agent of the previous release knows neither this field of the request nor that of the answer.
            await agent.say_plainly("answer", {"request": wanted.request})
            assert await asking is None
            await executor.forget(AGENT, [order.kernel_id])
            assert (await agent.until(Forget)).kernel_ids == (order.kernel_id,)
    finally:
        await there.close(code=1000, reason="")
        await meeting
        await executor.close()


async def test_what_orders_an_agent_of_the_previous_release_would_ignore_is_known() -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1)
    received = MessageRecorder(executor)
    here, there = wire_pair()
    agent = FutureWire(there)
    meeting = asyncio.create_task(executor.meet(here, agent_id=AGENT, key=KEY))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await agent.say(hello())
            await agent.until(Welcome)
            old = Agent(id=AGENT, version=0, node_id=NodeId("n"), hostname="h", registered_us=0, state_changed_us=0)
            await agent.say(StateReport(number=1, inventory=Inventory(agent=old)))
            joined = await received.wait_for(AgentJoined)
            assert isinstance(joined, AgentJoined)
            assert joined.inventory.agent.capabilities.lacks == tuple(ABILITIES)
            asking = asyncio.create_task(executor.inventory(AGENT))
            wanted = await agent.until(TellInventory)
            await agent.say(Answer(request=wanted.request, inventory=Inventory(agent=old)))
            assert (await asking).agent == joined.inventory.agent
    finally:
        await there.close(code=1000, reason="")
        await meeting
        await executor.close()


@pytest.mark.parametrize(
    ("theirs", "old"), [(Protocols(oldest=2, newest=3), "server"), (Protocols(oldest=0, newest=0), "agent")]
)
async def test_a_server_refuses_an_agent_without_a_common_protocol_and_names_which_to_upgrade(
    theirs: Protocols, old: str
) -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 1, software_version="aliquot 1")
    here, there = wire_pair()
    agent = FutureWire(there)
    meeting = asyncio.create_task(executor.meet(here, agent_id=AGENT, key=KEY))
    await agent.say(hello(protocols=theirs, software_version="aliquot 9"))
    refusal = await agent.until(Refusal)
    await meeting
    assert refusal.code == "protocol"
    assert refusal.message.endswith(f"upgrade the {old}")
    assert "aliquot 9" in refusal.message
    assert "aliquot 1" in refusal.message


async def test_an_agent_refuses_a_protocol_version_that_it_does_not_support() -> None:
    here, there = wire_pair()
    await FutureWire(here).say(welcome(2))
    with pytest.raises(ProtocolError, match="protocol 2, which this agent does not support"):
        await introduce(Channel(there), hello())


async def test_an_agent_shows_the_message_of_an_unknown_refusal() -> None:
    here, there = wire_pair()
    await FutureWire(here).say(Refusal(code="something new", message="not today"))
    with pytest.raises(Refused, match="not today"):
        await introduce(Channel(there), hello())
    await here.close(code=1000, reason="")
    with pytest.raises(ChannelClosed):
        await Channel(there).receive()
