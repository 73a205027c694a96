"""Reports that agents may drop: durably recorded ends, and ends of unknown sessions."""

import pytest

from aliquot_schema.cluster.launching import AgentJoined, KernelPhase, KernelReport
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.leases import EndEvidence
from service_bench import agent as fake_agent
from service_stage import stage

pytestmark = pytest.mark.anyio


async def test_a_kernel_is_forgotten_once_its_end_is_durable_and_not_before() -> None:
    agent = fake_agent("a", devices=2)
    async with stage([agent]) as on:
        await on.submit()
        await on.advance()
        await on.settle()
        (kernel_id,) = agent.starts
        assert agent.forgotten == []
        on.executor.end_kernel(kernel_id)
        await on.settle()
        assert agent.forgotten == [kernel_id]


async def test_ended_kernels_of_other_servers_reported_by_a_joining_agent_are_forgotten() -> None:
    agent = fake_agent("a", devices=2)
    stranger = KernelId("ses_of_another_server.1.0")
    agent.ended[stranger] = KernelReport(
        kernel_id=stranger, phase=KernelPhase.EXITED, at_us=1, exit_code=0, evidence=EndEvidence.EXIT_FILE
    )
    async with stage([agent]) as on:
        await on.submit()
        await on.advance()
        await on.settle()
        assert agent.forgotten == [stranger]
        await on.on_event(AgentJoined(inventory=agent.inventory()))
        assert set(agent.forgotten) == {stranger}
