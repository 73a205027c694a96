"""A real agent and the remote executor: the port, lost connections, late or repeated orders."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from agent_harness import PATIENCE_S, marked_processes, new_kernel, shell, wait_until
from aliquot.execution.remote.codec import Channel
from aliquot.execution.remote.dialing import introduce
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.presence import HeartbeatTiming
from aliquot.execution.remote.session import Refused, _Streams
from aliquot.service.ports import Executor
from aliquot_schema.cluster.agent_protocol import (
    LOG_WINDOW_BYTES,
    CloseStream,
    Heartbeat,
    KernelChangeReport,
    Launch,
    OpenStream,
    Protocols,
    StateReport,
    Stop,
    Welcome,
)
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentSilent,
    Inventory,
    KernelChanged,
    KernelPhase,
    KernelReport,
)
from aliquot_schema.cluster.results import FilesRequest
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import NotFound, StateConflict, Unavailable
from aliquot_schema.ids import AgentId, KernelId, NodeId
from aliquot_schema.resources.leases import EndEvidence
from api_streams import EchoStream
from remote_in_memory import AGENT, KEY, QUICK, ConnectedAgent, OneKey, connected_agent, hello, wire_pair

pytestmark = pytest.mark.anyio
PATIENT = HeartbeatTiming(beat_s=0.5, lost_s=PATIENCE_S)


def reports(on: ConnectedAgent, kernel: KernelId) -> list[KernelReport]:
    told = [message.report for message in on.received.messages if isinstance(message, KernelChanged)]
    return [report for report in told if report.kernel_id == kernel]


async def wait_for_report(on: ConnectedAgent, kernel: KernelId, phase: KernelPhase) -> KernelReport:
    def found() -> list[KernelReport]:
        return [report for report in reports(on, kernel) if report.phase is phase]

    async with on.received.message_arrived:
        await asyncio.wait_for(on.received.message_arrived.wait_for(found), PATIENCE_S)
    return found()[-1]


async def test_an_agent_reports_whether_its_host_has_an_account(agent_home: Path) -> None:
    async with connected_agent(agent_home) as on:
        with pytest.raises(Unavailable):
            await on.executor.has_account(AGENT, "nobody")
        await on.dial()
        await on.received.wait_for(AgentJoined)
        assert await on.executor.has_account(AGENT, "nobody") is True
        assert await on.executor.has_account(AGENT, "no-such-account") is False


async def test_the_remote_executor_implements_the_port(agent_home: Path) -> None:
    async with connected_agent(agent_home) as on:
        port: Executor = on.executor
        with pytest.raises(Unavailable):
            await port.launch(AGENT, [shell("true")])
        await on.dial()
        joined = await on.received.wait_for(AgentJoined)
        assert isinstance(joined, AgentJoined)
        assert joined.inventory.agent.id == AGENT
        asked = shell("echo hello; exit 7")
        await port.launch(AGENT, [asked])
        assert (await wait_for_report(on, asked.kernel_id, KernelPhase.EXITED)).exit_code == 7
        chunks = [chunk async for chunk in port.follow_log(AGENT, asked.kernel_id, offset=1)]
        assert b"".join(chunk.data for chunk in chunks) == b"ello\n"
        assert [chunk.at_end for chunk in chunks][-1]
        assert [report.phase for report in (await port.inventory(AGENT)).kernels] == [KernelPhase.EXITED]
        with pytest.raises(NotFound):
            await port.send_signal(AGENT, asked.kernel_id, epoch=1, signal=9)
        with pytest.raises(StateConflict):
            await port.stop(AGENT, asked.kernel_id, epoch=0, grace_ms=0)
        with pytest.raises(NotFound):
            _ = [chunk async for chunk in port.follow_log(AGENT, new_kernel(), offset=0)]


async def test_a_kernel_that_ended_while_disconnected_is_reported_on_joining(agent_home: Path) -> None:
    async with connected_agent(agent_home, timing=PATIENT) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        go = agent_home.with_name("go")
        asked = shell(f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9")
        await on.executor.launch(AGENT, [asked])
        await wait_for_report(on, asked.kernel_id, KernelPhase.STARTED)
        await on.cut()
        go.touch()
        await wait_until(lambda: (on.harness.folder(asked.kernel_id) / "exit.json").exists())
        await on.dial()
        joined = await on.received.wait_for(AgentJoined, count=2)
        assert isinstance(joined, AgentJoined)
        known = [report.exit_code for report in joined.inventory.kernels]
        if known != [9]:  # the inventory was read before the agent saw the end, so a report follows
            assert (await wait_for_report(on, asked.kernel_id, KernelPhase.EXITED)).exit_code == 9
        assert not any(isinstance(message, AgentSilent) for message in on.received.messages)


async def test_an_output_is_followed_over_a_lost_connection(agent_home: Path) -> None:
    async with connected_agent(agent_home, timing=PATIENT) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        go = agent_home.with_name("go")
        asked = shell(f"echo one; while [ ! -e {go} ]; do sleep 0.02; done; echo two")
        await on.executor.launch(AGENT, [asked])
        await wait_for_report(on, asked.kernel_id, KernelPhase.STARTED)
        seen = b""
        async with aclosing(on.executor.follow_log(AGENT, asked.kernel_id, offset=0)) as chunks:
            async for chunk in chunks:
                seen += chunk.data
                if seen == b"one\n" and not go.exists():
                    await on.cut()
                    go.touch()
                    await on.dial()
        assert seen == b"one\ntwo\n"


async def test_following_an_output_ends_with_the_term_of_the_executor(agent_home: Path) -> None:
    async with connected_agent(agent_home, timing=PATIENT) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        asked = shell("echo one; sleep 600")
        await on.executor.launch(AGENT, [asked])
        async with aclosing(on.executor.follow_log(AGENT, asked.kernel_id, offset=0)) as chunks:
            assert (await anext(chunks)).data == b"one\n"
            await on.executor.close()  # another server leads: the agent does not come back here
            with pytest.raises(Unavailable, match="no longer connected to this server"):
                await anext(chunks)


async def test_a_slow_reader_makes_the_agent_stop_sending_output(agent_home: Path) -> None:
    async with connected_agent(agent_home, timing=PATIENT) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        asked = shell("head -c 3000000 /dev/zero")
        await on.executor.launch(AGENT, [asked])
        await wait_for_report(on, asked.kernel_id, KernelPhase.EXITED)
        total = 0
        async with aclosing(on.executor.follow_log(AGENT, asked.kernel_id, offset=0)) as chunks:
            first = await anext(chunks)
            total += len(first.data)
            await on.executor.inventory(AGENT)  # all sent before this answer has arrived
            (link,) = on.executor._links.values()
            (stream,) = link._streams.values()
            assert 0 < stream._bytes <= LOG_WINDOW_BYTES
            async for chunk in chunks:
                total += len(chunk.data)
        assert total == 3_000_000
        assert link._streams == {}


async def test_the_stream_of_a_reader_that_leaves_is_closed(agent_home: Path) -> None:
    async with connected_agent(agent_home, timing=PATIENT) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        asked = shell("echo x; exec sleep 600")
        await on.executor.launch(AGENT, [asked])
        await wait_for_report(on, asked.kernel_id, KernelPhase.STARTED)
        async with aclosing(on.executor.follow_log(AGENT, asked.kernel_id, offset=0)) as chunks:
            assert (await anext(chunks)).data == b"x\n"
        await on.executor.stop(AGENT, asked.kernel_id, epoch=1, grace_ms=0)
        await wait_for_report(on, asked.kernel_id, KernelPhase.EXITED)
        (link,) = on.executor._links.values()
        assert link._streams == {}


async def test_a_start_that_is_delivered_twice_starts_once(agent_home: Path) -> None:
    async with connected_agent(agent_home) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        mark = agent_home.with_name("marks")
        mark.mkdir()
        mark.chmod(0o777)
        asked = shell(f"echo started >> {mark}/runs; exec sleep 600")
        await asyncio.gather(*(on.executor.launch(AGENT, [asked]) for _ in range(3)))
        await wait_for_report(on, asked.kernel_id, KernelPhase.STARTED)
        await on.cut()
        await on.dial()
        await on.received.wait_for(AgentJoined, count=2)
        await on.executor.launch(AGENT, [asked])
        await wait_until(lambda: (mark / "runs").exists())
        assert len(marked_processes(asked.kernel_id)) == 1
        await on.executor.stop(AGENT, asked.kernel_id, epoch=1, grace_ms=0)
        await wait_for_report(on, asked.kernel_id, KernelPhase.EXITED)
        assert (mark / "runs").read_text() == "started\n"


async def test_a_start_that_comes_after_its_stop_starts_nothing(agent_home: Path) -> None:
    async with connected_agent(agent_home) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        asked = shell("exec sleep 600")
        await on.executor.stop(AGENT, asked.kernel_id, epoch=1, grace_ms=0)
        await on.executor.launch(AGENT, [asked])
        refused = await wait_for_report(on, asked.kernel_id, KernelPhase.REFUSED)
        assert refused.evidence is EndEvidence.TOMBSTONE
        assert marked_processes(asked.kernel_id) == []


async def test_orders_of_an_older_leader_are_refused_by_the_next_connection_too(agent_home: Path) -> None:
    async with connected_agent(agent_home) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        await on.executor.stop(AGENT, new_kernel(), epoch=5, grace_ms=0)
        await on.cut()
        await on.dial()
        await on.received.wait_for(AgentJoined, count=2)
        old = shell("exec sleep 600", epoch=4)
        await on.executor.launch(AGENT, [old])
        assert (await wait_for_report(on, old.kernel_id, KernelPhase.REFUSED)).code == "stale_epoch"


async def test_a_second_process_of_an_agent_is_refused_and_a_reconnect_replaces_the_connection(
    agent_home: Path,
) -> None:
    async with connected_agent(agent_home, timing=PATIENT) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        with pytest.raises(Refused, match="another process is connected"):
            await on.dial(instance="two")
        await on.dial()
        await on.received.wait_for(AgentJoined, count=2)
        await on.executor.inventory(AGENT)


async def test_a_probe_connection_is_welcomed_without_joining(agent_home: Path) -> None:
    async with connected_agent(agent_home, timing=PATIENT) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        here, there = wire_pair()
        meeting = asyncio.create_task(on.executor.meet(here, agent_id=AGENT, key=KEY))
        assert isinstance(await introduce(Channel(there), hello(instance="check", probe=True)), Welcome)
        await meeting
        await on.executor.inventory(AGENT)


async def test_a_revoked_key_ends_the_connection(agent_home: Path) -> None:
    async with connected_agent(agent_home) as on:
        await on.dial()
        await on.received.wait_for(AgentJoined)
        assert on.executor.refusal(AGENT, KEY) is None
        on.keys.revoked = True
        assert on.executor.refusal(AGENT, KEY) is not None
        silent = await on.received.wait_for(AgentSilent)
        assert silent == AgentSilent(agent_id=AGENT)
        assert on.server_wire.code == 4403
        with pytest.raises(Unavailable):
            await on.executor.launch(AGENT, [shell("true")])


async def test_a_connection_that_stays_silent_before_joining_is_closed() -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 0)
    await executor.start()
    here, there = wire_pair()
    meeting = asyncio.create_task(executor.meet(here, agent_id=AGENT, key=KEY))
    await introduce(Channel(there), hello())
    await asyncio.wait_for(meeting, PATIENCE_S)  # it never joined: timeout
    assert here.code == 4408
    await executor.close()


async def test_agents_known_to_an_earlier_server_are_lost_when_they_do_not_connect() -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 0, expected=[AGENT])
    await executor.start()
    messages = executor.messages()
    assert await asyncio.wait_for(anext(messages), PATIENCE_S) == AgentSilent(agent_id=AGENT)
    assert await asyncio.wait_for(anext(messages), PATIENCE_S) == AgentSilent(agent_id=AGENT, lost=True)
    await executor.close()


async def greeted(**fields: object) -> str:
    """The executor's answer to a hello that it refuses."""
    own = frozenset({AgentId("own")})
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: 0, taken_ids=own)
    here, there = wire_pair()
    agent_id = str(fields.pop("named", AGENT))
    meeting = asyncio.create_task(executor.meet(here, agent_id=agent_id, key=KEY))
    with pytest.raises(Refused) as refused:
        await introduce(Channel(there), hello(**fields))
    await meeting
    return str(refused.value)


async def test_a_hello_with_a_wrong_protocol_or_agent_id_is_refused() -> None:
    assert "upgrade the server" in await greeted(protocols=Protocols(oldest=99, newest=99))
    assert "upgrade the agent" in await greeted(protocols=Protocols(oldest=0, newest=0))
    assert "the server itself" in await greeted(agent_id="own", named="own")
    assert "not the hello" in await greeted(agent_id="other")


@pytest.mark.parametrize(
    "message",
    [
        Launch(request=1, orders=()),
        Stop(request=1, kernel_id=KernelId("k"), epoch=1, grace_ms=0),
        KernelChangeReport(number=1, report=KernelReport(kernel_id=KernelId("k"), phase=KernelPhase.STARTED, at_us=1)),
    ],
)
async def test_an_agent_that_breaks_the_protocol_is_cut_off(message: Launch | Stop | KernelChangeReport) -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=PATIENT, now_us=lambda: 0)
    here, there = wire_pair()
    meeting = asyncio.create_task(executor.meet(here, agent_id=AGENT, key=KEY))
    channel = Channel(there)
    await introduce(channel, hello())
    await channel.send(Heartbeat())
    await channel.send(message)
    await asyncio.wait_for(meeting, PATIENCE_S)
    assert here.code == 4500


async def test_a_late_answer_for_result_files_does_not_end_the_connection() -> None:
    timing = HeartbeatTiming(beat_s=30.0, lost_s=600.0, answer_s=0.2)
    executor = RemoteExecutor(keys=OneKey(), timing=timing, now_us=lambda: 0)
    here, there = wire_pair()
    meeting = asyncio.create_task(executor.meet(here, agent_id=AGENT, key=KEY))
    channel = Channel(there)
    await introduce(channel, hello(has_streams=True))
    agent = Agent(id=AGENT, version=0, node_id=NodeId("n"), hostname="h", registered_us=0, state_changed_us=0)
    await channel.send(StateReport(number=1, inventory=Inventory(agent=agent)))
    assert isinstance(await anext(executor.messages()), AgentJoined)
    for target in (StreamTarget(files=FilesRequest()), StreamTarget(port=80)):
        assert not meeting.done()
        with pytest.raises(Unavailable, match="did not answer"):
            await executor.open_stream(AGENT, KernelId("ses_1.1.0"), target)
        await asyncio.sleep(0.1)
    await asyncio.wait_for(meeting, PATIENCE_S)


async def test_an_agent_that_does_not_answer_is_unavailable_and_disconnected() -> None:
    timing = HeartbeatTiming(beat_s=30.0, lost_s=600.0, answer_s=0.2)
    executor = RemoteExecutor(keys=OneKey(), timing=timing, now_us=lambda: 0)
    here, there = wire_pair()
    meeting = asyncio.create_task(executor.meet(here, agent_id=AGENT, key=KEY))
    channel = Channel(there)
    await introduce(channel, hello())
    agent = Agent(id=AGENT, version=0, node_id=NodeId("n"), hostname="h", registered_us=0, state_changed_us=0)
    await channel.send(StateReport(number=1, inventory=Inventory(agent=agent)))
    assert isinstance(await anext(executor.messages()), AgentJoined)
    with pytest.raises(Unavailable, match="did not answer"):
        await executor.launch(AGENT, [shell("true")])
    await asyncio.wait_for(meeting, PATIENCE_S)


@pytest.mark.parametrize("turns", range(6))
async def test_a_stream_closed_while_it_is_opened_leaves_nothing_open_on_the_agent(turns: int) -> None:
    """Closed at any await; the confirmation of its opening never arrives."""
    opened: list[EchoStream] = []

    class Core:
        async def open_stream(self, *_: object) -> EchoStream:
            opened.append(EchoStream())
            return opened[-1]

    class Full:
        async def send(self, _: object) -> None:
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        streams = _Streams(cast(Any, Core()), cast(Any, Full()), tasks)
        streams.start(OpenStream(request=1, kernel_id=KernelId("ses_1.1.0"), target=StreamTarget(port=80)))
        for _ in range(turns):
            await asyncio.sleep(0)
        streams.receive(CloseStream(request=1))
    assert len(opened) == (turns > 0)
    assert all(echo.is_closed for echo in opened)
    await asyncio.sleep(0)
    assert streams._open == {}
