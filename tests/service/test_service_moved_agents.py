"""Agents that appear on another machine than before: which of them may join."""

import pytest

from aliquot.service.lifecycle.agent_registration import elsewhere
from aliquot_schema.ids import AgentId, NodeId
from service_bench import agent as fake_agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio
A = AgentId("a")


def words(on: Stage, *, node: str, boot: str) -> str | None:
    return elsewhere(on.state, A, node_id=NodeId(node), boot_id=boot)


async def test_an_agent_on_another_machine_is_refused_only_while_devices_are_held_on_the_first() -> None:
    async with stage([fake_agent("a", devices=1)]) as on:
        assert words(on, node="other", boot="boot-2") is None
        session = await on.submit()
        await on.advance()
        assert words(on, node="node-a", boot="boot-1") is None
        assert words(on, node="node-a", boot="boot-2") is None, "it was booted again"
        assert words(on, node="other", boot="boot-1") is None, "it is the same boot, under another identity"
        refused = words(on, node="other", boot="boot-2")
        assert refused is not None
        assert "release_lost_agent" in refused
        (kernel,) = on.state.kernels_of[session]
        on.executor.end_kernel(kernel)
        await on.settle()
        assert words(on, node="other", boot="boot-2") is None
        assert elsewhere(on.state, AgentId("unknown"), node_id=NodeId("n"), boot_id="b") is None
