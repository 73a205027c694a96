"""Timeouts of silent agents, and unsent messages."""

import asyncio
from pathlib import Path

import pytest

from agent_harness import PATIENCE_S, new_kernel
from aliquot.execution.remote.presence import HeartbeatTiming, Presence
from aliquot.execution.remote.session import Outbox, OutboxFull
from aliquot_schema.cluster.agent_protocol import WINDOW, KernelChangeReport, ReadingsReport, StateReport
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentSilent,
    Inventory,
    KernelChanged,
    KernelPhase,
    KernelReport,
    NewReadings,
)
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId, NodeId
from remote_in_memory import AGENT, connected_agent

A = AgentId("a")
TIMING = HeartbeatTiming(beat_s=2.0, lost_s=30.0)


class Watch:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_silent_agent_is_reported_once_as_suspect_and_once_as_lost() -> None:
    watch = Watch()
    presence = Presence(TIMING, expected=(), now=watch)
    presence.joined(A)
    told: dict[float, list[AgentSilent]] = {}
    for step in range(1, 400):
        watch.now = 100 + step / 10
        if silent := presence.judge():
            told[step / 10] = silent
    assert told == {6.1: [AgentSilent(agent_id=A)], 30.1: [AgentSilent(agent_id=A, lost=True)]}


def test_with_many_agents_heartbeats_and_silence_timeouts_are_longer() -> None:
    assert TIMING.among(999) == TIMING
    assert (TIMING.among(2000).beat_s, TIMING.among(2000).suspect_s) == (4.0, 12.0)
    assert TIMING.among(10_000) == TIMING.among(100_000) == HeartbeatTiming(beat_s=6.0, lost_s=30.0)
    watch = Watch()
    presence = Presence(TIMING, expected=(), now=watch)
    presence.joined(A, TIMING.among(2000))
    watch.now += 11.9
    assert presence.judge() == []
    watch.now += 0.2
    assert presence.judge() == [AgentSilent(agent_id=A)]


def test_heartbeats_keep_an_agent_connected_and_a_suspect_agent_has_to_join_again() -> None:
    watch = Watch()
    presence = Presence(TIMING, expected=(), now=watch)
    presence.joined(A)
    for _ in range(20):
        watch.now += 5
        presence.seen(A, at=watch.now)
        assert presence.judge() == []
    watch.now += 7
    assert presence.judge() == [AgentSilent(agent_id=A)]
    presence.seen(A, at=watch.now)
    watch.now += 24
    assert presence.judge() == [AgentSilent(agent_id=A, lost=True)]
    presence.joined(A)
    watch.now += 5
    assert presence.judge() == []


def test_agents_of_an_earlier_server_are_expected_unless_they_left() -> None:
    watch = Watch()
    presence = Presence(TIMING, expected=[A, AgentId("b")], now=watch)
    presence.left(AgentId("b"))
    watch.now += 31
    assert presence.judge() == [AgentSilent(agent_id=A), AgentSilent(agent_id=A, lost=True)]


def inventory() -> Inventory:
    return Inventory(
        agent=Agent(id=A, version=0, node_id=NodeId("n"), hostname="h", registered_us=0, state_changed_us=0)
    )


def changed(number: int) -> KernelChanged:
    report = KernelReport(kernel_id=KernelId(f"ses_1.1.{number}"), phase=KernelPhase.STARTED, at_us=number)
    return KernelChanged(agent_id=A, report=report)


@pytest.mark.anyio
async def test_the_outbox_sends_the_inventory_first_and_no_more_than_its_window() -> None:
    box = Outbox()
    for number in range(WINDOW + 10):
        box.add(changed(number))
    box.add(AgentJoined(inventory=inventory()))
    sent = [await box.next() for _ in range(WINDOW)]
    assert isinstance(sent[0], StateReport)
    assert [report.number for report in sent] == list(range(1, WINDOW + 1))
    assert [report.report.at_us for report in sent if isinstance(report, KernelChangeReport)] == list(range(WINDOW - 1))
    waiting = asyncio.create_task(box.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    box.acknowledge(1)
    following = await waiting
    assert isinstance(following, KernelChangeReport)
    assert following.report.at_us == WINDOW - 1


@pytest.mark.anyio
async def test_the_outbox_keeps_only_the_newest_readings_and_fails_when_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = Outbox()
    box.add(AgentJoined(inventory=inventory()))
    await box.next()
    for at_us in range(100):
        box.add(NewReadings(agent_id=A, at_us=at_us, readings=()))
    newest = await box.next()
    assert isinstance(newest, ReadingsReport)
    assert newest.at_us == 99
    monkeypatch.setattr("aliquot.execution.remote.session.WAITING_MAX", 5)
    for number in range(6):
        box.add(changed(number))
    with pytest.raises(OutboxFull):
        await box.next()


@pytest.mark.anyio
async def test_an_output_of_an_agent_that_does_not_answer_fails_soon_and_says_since_when(agent_home: Path) -> None:
    async with connected_agent(agent_home, timing=HeartbeatTiming(beat_s=0.1, lost_s=1000.0)) as on:
        with pytest.raises(Unavailable, match=r"has not connected since .* UTC, when this server began to lead"):
            await anext(on.executor.follow_log(AGENT, new_kernel(), offset=0))
        await on.dial()
        await on.received.wait_for(AgentJoined)
        await on.cut()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Unavailable, match=r"does not answer: it was last heard at \d{4}-\d\d-\d\d .* UTC"):
                await anext(on.executor.follow_log(AGENT, new_kernel(), offset=0))
