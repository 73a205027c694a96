"""Rendezvous ports of gangs: on rank 0's node, unique while any rank of the gang lives."""

from dataclasses import replace

import pytest

from aliquot_schema.cluster.agents import Capabilities
from aliquot_schema.cluster.launching import AgentJoined
from aliquot_schema.ids import SessionId
from service_bench import agent as fake_agent
from service_fakes import FakeAgent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

ADDRESS = "10.0.0.1"


def node(name: str, *, devices: int = 4, ports: int = 2) -> FakeAgent:
    reach = Capabilities(address=f"{ADDRESS}{name}", port_first=30_000, port_last=30_000 + ports - 1)
    return replace(fake_agent(name, devices=devices), capabilities=reach)


async def gang(on: Stage, *, kernels: int = 2, devices: int = 2) -> SessionId:
    session = await on.submit(kernels=kernels, devices=devices)
    await on.advance()
    return session


def variables(session: SessionId, *agents: FakeAgent) -> list[dict[str, str]]:
    orders = [order for agent in agents for order in agent.orders.values() if order.kernel_id.startswith(session)]
    return [dict(order.environment) for order in sorted(orders, key=lambda order: order.kernel_id)]


def port(session: SessionId, *agents: FakeAgent) -> str:
    (found,) = {each["MASTER_PORT"] for each in variables(session, *agents)}
    return found


async def test_ranks_on_two_nodes_get_the_address_of_rank_0_and_a_common_port() -> None:
    a, b = node("a", devices=2), node("b", devices=2)
    async with stage([a, b]) as on:
        told = variables(await gang(on), a, b)
        assert [each["RANK"] for each in told] == ["0", "1"]
        assert [each["NODE_RANK"] for each in told] == ["0", "1"]
        assert [each["ALIQUOT_NODES"] for each in told] == ["2", "2"]
        assert {each["LOCAL_RANK"] for each in told} == {"0"}
        assert {each["LOCAL_WORLD_SIZE"] for each in told} == {"1"}
        assert {each["WORLD_SIZE"] for each in told} == {"2"}
        first = a if any(order.environment["RANK"] == "0" for order in a.orders.values()) else b
        assert {each["MASTER_ADDR"] for each in told} == {first.capabilities.address}
        assert {each["MASTER_PORT"] for each in told} <= {"30000", "30001"}


async def test_ranks_of_one_agent_meet_on_loopback_and_a_single_rank_has_a_port_too() -> None:
    a = node("a")
    async with stage([a]) as on:
        both, alone = await gang(on, devices=1), await gang(on, kernels=1, devices=1)
        assert {each["MASTER_ADDR"] for each in variables(both, a)} == {"127.0.0.1"}
        assert port(both, a) != port(alone, a)


async def test_a_port_is_reserved_until_the_last_rank_exits_and_none_is_given_when_all_are_used() -> None:
    a = node("a", devices=8)
    async with stage([a]) as on:
        first, second, third = [await gang(on, devices=1) for _ in range(3)]
        assert {port(first, a), port(second, a)} == {"30000", "30001"}
        assert all("MASTER_PORT" not in each and "MASTER_ADDR" not in each for each in variables(third, a))
        rank_0, rank_1 = sorted(kernel for kernel in a.running if kernel.startswith(first))
        on.executor.end_kernel(rank_0)
        await on.settle()
        fourth = await gang(on, kernels=1, devices=1)
        assert "MASTER_PORT" not in variables(fourth, a)[0]
        on.executor.end_kernel(rank_1)
        await on.settle()
        assert port(await gang(on, kernels=1, devices=1), a) == port(first, a)


async def test_an_order_that_is_sent_again_names_the_same_port() -> None:
    a, b = node("a", devices=2, ports=100), node("b", devices=2, ports=100)
    a.loses_orders = b.loses_orders = True
    async with stage([a, b]) as on:
        session = await gang(on)
        before = variables(session, a, b)
        a.orders.clear()
        a.loses_orders = False
        await on.on_event(AgentJoined(inventory=a.inventory()))
        await on.settle()
        assert variables(session, a, b) == before
        b.loses_orders = False
        await on.on_event(AgentJoined(inventory=b.inventory()))
        await on.settle()
