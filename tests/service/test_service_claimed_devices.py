"""The same GPUs from agents of two nodes: the second is refused, and an alert names both."""

import pytest
from msgspec.structs import replace

from aliquot.app.agents import agent_rejection
from aliquot.service.alerts.conditions import device_unhealthy
from aliquot.service.alerts.rules import Rules
from aliquot_schema.alerts import AlertRule
from aliquot_schema.cluster.launching import AgentSilent, DevicesChanged
from aliquot_schema.ids import AgentId, NodeId
from aliquot_schema.states import AgentState
from service_bench import agent as fake_agent
from service_fakes import FakeAgent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio
A, B = AgentId("a"), AgentId("b")


def two_nodes() -> list[FakeAgent]:
    return [fake_agent("a", devices=2), fake_agent("b", devices=2)]


def unhealthy_devices(on: Stage) -> list[str]:
    rule = Rules(on.state.alert_index).of(AlertRule.DEVICE_UNHEALTHY)
    return [one.words for one in device_unhealthy(on.state, rule, on.clock.now_us())]


def same_gpus(on: Stage) -> tuple[FakeAgent, FakeAgent]:
    one, two = on.executor.agents[A], on.executor.agents[B]
    two.devices, two.boot_id = one.devices, "boot-2"
    return one, two


async def test_a_second_node_with_the_same_gpus_is_refused_and_the_alert_names_both() -> None:
    async with stage(two_nodes()) as on:
        _, two = same_gpus(on)
        await on.messages.run_once([DevicesChanged(inventory=two.inventory())])
        assert on.state.agents[B].devices == ()
        assert sum(len(each.devices) for each in on.state.agents.values()) == 2
        words = "; ".join(unhealthy_devices(on))
        assert "agent b on b" in words
        assert "belongs to agent a on a" in words
        refusal = agent_rejection(on.state, two.describe())
        assert refusal is not None
        assert "a GPU is in one machine" in refusal


async def test_a_gpu_that_was_moved_belongs_to_the_new_node_once_the_old_agent_left() -> None:
    async with stage(two_nodes()) as on:
        _, two = same_gpus(on)
        await on.messages.run_once([AgentSilent(agent_id=A, gone=True)])
        assert on.state.agents[A].state is AgentState.LEFT
        await on.messages.run_once([DevicesChanged(inventory=two.inventory())])
        assert len(on.state.agents[B].devices) == 2
        assert unhealthy_devices(on) == []


async def test_a_lost_agent_that_holds_devices_keeps_its_claim() -> None:
    async with stage(two_nodes()) as on:
        _, two = same_gpus(on)
        await on.messages.run_once([DevicesChanged(inventory=two.inventory())])
        await on.submit(devices=2)
        await on.advance()
        await on.messages.run_once([AgentSilent(agent_id=A), AgentSilent(agent_id=A, lost=True)])
        assert on.state.agents[A].state is AgentState.LOST
        assert agent_rejection(on.state, two.describe()) is not None


async def test_a_machine_with_a_new_node_id_is_not_another_machine() -> None:
    async with stage(two_nodes()) as on:
        one, two = on.executor.agents[A], on.executor.agents[B]
        two.devices, one.node, two.node = one.devices, "old", "old"
        await on.messages.run_once([DevicesChanged(inventory=each.inventory()) for each in (one, two)])
        assert [len(each.devices) for each in on.state.agents.values()] == [2, 2], "one node shares its devices"
        moved = replace(two.describe(), node_id=NodeId("new"))
        assert agent_rejection(on.state, moved) is None
