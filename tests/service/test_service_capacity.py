"""Total capacity of the cluster: each device once, device shares as fractions."""

import pytest

from aliquot_schema.cluster.launching import AgentSilent
from aliquot_schema.ids import AgentId
from service_bench import agent as fake_agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


def gpus(on: Stage) -> dict[str, tuple[str, str, str]]:
    return {
        view.slot: (view.total, view.available, view.allocated) for view in on.queries.cluster(CALLER, None).capacity
    }


async def test_a_device_of_two_agents_counts_once_and_its_shares_count_as_fractions() -> None:
    agents = [fake_agent("a", devices=2, node="n"), fake_agent("b", devices=2, node="n"), fake_agent("c", devices=1)]
    async with stage(agents) as on:
        assert gpus(on) == {"cuda.device": ("3.00", "3.00", "0.00"), "cuda.shares": ("3.00", "3.00", "0.00")}
        for shares in ("0.6", "0.25"):
            await on.submit(slots=[("cuda.shares", shares)])
            await on.advance()
        assert gpus(on) == {"cuda.device": ("3.00", "2.15", "0.85"), "cuda.shares": ("3.00", "2.15", "0.85")}
        await on.submit(devices=1)
        await on.advance()
        assert gpus(on)["cuda.device"] == ("3.00", "1.15", "1.85")


async def test_lost_agents_do_not_count_as_capacity() -> None:
    async with stage([fake_agent("a", devices=2), fake_agent("b", devices=1)]) as on:
        await on.on_event(AgentSilent(agent_id=AgentId("a")))
        assert gpus(on)["cuda.device"][0] == "3.00"
        await on.on_event(AgentSilent(agent_id=AgentId("a"), lost=True))
        assert gpus(on)["cuda.device"][0] == "1.00"
