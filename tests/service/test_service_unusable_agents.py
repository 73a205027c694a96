"""Stored agent records of an earlier version with impossible values: the agents are left out."""

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.agents.administration import AgentAdministration
from aliquot.service.alerts.conditions import agent_lost
from aliquot.service.alerts.rules import Rules
from aliquot.service.ports import Batch, RowWrite
from aliquot.service.state.snapshots import take
from aliquot.service.views.agents import agent_view
from aliquot_schema.alerts import AlertRule
from aliquot_schema.cluster.agents import Agent, Capabilities
from aliquot_schema.cluster.launching import AgentSilent, NewReadings
from aliquot_schema.ids import AgentId, DeviceId, SlotName
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.states import AgentState, SessionState
from service_bench import agent, gpus
from service_stage import CALLER, EPOCH, Stage, stage

pytestmark = pytest.mark.anyio
A, B = AgentId("a"), AgentId("b")
ODD = [
    {"budget": 2**63 - 1},
    {"budget": -(2**63)},
    {"memory_bytes": 2**63},
    {"memory_bytes": -1},
    {"costs": {SlotName("cuda.device"): 0, SlotName("cuda.shares"): -1}},
    {"quanta": {SlotName("cuda.device"): 0}},
    {"id": DeviceId("a\0b")},
    {"numa_node": 2**40},
]


async def stores(on: Stage, record: Agent) -> None:
    """As an earlier version did, without checks."""
    for event in await on.store.commit(
        Batch(
            writes=(RowWrite(record=record, kind="agent.changed"),),
            at_us=on.clock.now_us(),
            actor="system:agents",
            epoch=EPOCH,
        )
    ):
        on.state.apply(event)


@pytest.mark.parametrize("odd", ODD, ids=str)
async def test_a_pass_skips_an_agent_with_an_invalid_record(
    odd: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        known = on.state.agents[B]
        devices = (replace(known.devices[0], **odd),)
        caplog.set_level(logging.WARNING, logger="aliquot.agents")
        await stores(on, replace(known, version=known.version + 1, devices=devices))
        assert [row.id for row in take(on.state).agents] == [A]
        assert any(
            record.message.startswith("agent b is excluded from scheduling, because its stored record is invalid")
            for record in caplog.records
        )
        first, second = await on.submit(), await on.submit()
        await on.advance()
        assert on.session(first).state is SessionState.RUNNING
        assert on.session(second).state is SessionState.QUEUED
        assert agent_view(on.state, on.state.agents[B]).devices == ()
        on.executor.reconnect_agent(B)
        await on.settle()
        assert B not in on.state.faults.unusable
        await on.advance()
        assert on.session(second).state is SessionState.RUNNING


async def test_a_change_of_an_agent_with_an_invalid_record_keeps_the_stored_devices() -> None:
    """Its devices are left out in memory only: a build that can use the record finds it whole."""
    async with stage([agent("a", devices=1), agent("b", devices=2)]) as on:
        known = on.state.agents[B]
        devices = (replace(known.devices[0], budget=-1), known.devices[1])
        odd = replace(known, version=known.version + 1, devices=devices)
        await stores(on, odd)
        assert on.state.agents[B].devices == ()
        await on.on_event(AgentSilent(agent_id=B, lost=True))
        office = AgentAdministration(state=on.state, journal=on.journal, clock=on.clock)
        await office.drain_agent(CALLER, "b", note=None, evicts=False)
        assert on.state.agents[B].devices == ()
        assert on.state.agents[B].draining
        written = [event.record for event in await on.store.events_after(0, limit=1000) if event.entity_id == B][-2:]
        assert [one.state for one in written if isinstance(one, Agent)] == [AgentState.LOST] * 2
        for one in written:
            assert isinstance(one, Agent)
            assert (one.devices, one.slot_types, one.registered_us) == (odd.devices, odd.slot_types, odd.registered_us)
        on.executor.reconnect_agent(B)
        await on.settle()
        assert [device.budget for device in on.state.agents[B].devices] == [device.budget for device in known.devices]


async def test_times_out_of_range_in_an_agent_record_are_shown_within_range() -> None:
    async with stage([agent("a", devices=1)]) as on:
        known = on.state.agents[A]
        odd = replace(
            known,
            version=known.version + 1,
            registered_us=2**63 - 1,
            state_changed_us=-(2**62),
            capabilities=Capabilities(port_first=5, port_last=1),
        )
        await stores(on, odd)
        view = agent_view(on.state, on.state.agents[A])
        assert (view.registered_at.year, view.state_changed_at.year) == (9999, 1970)


async def test_the_alert_of_a_lost_agent_says_that_it_is_refused() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.on_event(AgentSilent(agent_id=A, lost=True))
        assert on.state.agents[A].state is AgentState.LOST
        on.state.faults.note_refused(A, "budget is -1; 1 to 100,000 is allowed")
        rule = Rules(on.state.alert_index).of(AlertRule.AGENT_LOST)
        (condition,) = agent_lost(on.state, rule, on.clock.now_us())
        assert "and its messages are rejected (budget is -1; 1 to 100,000 is allowed)" in condition.words
        on.state.faults.note_refused(A, None)
        (condition,) = agent_lost(on.state, rule, on.clock.now_us())
        assert "refused" not in condition.words


async def test_the_alert_of_a_lost_agent_names_canceled_sessions_whose_processes_may_still_run() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session_id = await on.submit(name="train")
        await on.advance()
        await on.on_event(AgentSilent(agent_id=A, lost=True))
        await on.cancel(session_id)
        assert on.session(session_id).state is SessionState.CANCELED
        rule = Rules(on.state.alert_index).of(AlertRule.AGENT_LOST)
        (condition,) = agent_lost(on.state, rule, on.clock.now_us())
        assert condition.words == f"agent a on a is lost; its processes may still run: train ({session_id})"
        assert condition.owners == (on.session(session_id).owner,)


async def test_readings_of_devices_that_an_agent_does_not_have_are_not_kept() -> None:
    async with stage([agent("a", devices=1)]) as on:
        there = gpus(1)[0].id
        readings = tuple(DeviceReading(device_id=name, utilization_pct=1.0) for name in (there, DeviceId("other")))
        await on.on_event(NewReadings(agent_id=A, at_us=1, readings=readings))
        await on.on_event(NewReadings(agent_id=AgentId("unknown"), at_us=1, readings=readings))
        assert list(on.state.readings) == [(A, there)]


async def test_record_versions_sent_by_an_agent_are_ignored() -> None:
    async with stage([]) as on:
        newcomer = agent("a", devices=1)
        told = replace(newcomer.describe(), version=2**53, registered_us=7)
        newcomer.describe = lambda: told  # type: ignore[method-assign]
        on.executor.add_agent(newcomer)
        await on.settle()
        assert on.state.agents[A].version == 1
