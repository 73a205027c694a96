"""An agent's remark on a running kernel is visible to all until it is withdrawn."""

import pytest

from aliquot_schema.cluster.launching import KernelChanged, KernelPhase, KernelReport
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.states import SessionState
from service_bench import agent as fake_agent
from service_stage import stage

pytestmark = pytest.mark.anyio
A = AgentId("a")


def remark(kernel: KernelId, words: str | None) -> KernelChanged:
    report = KernelReport(kernel_id=kernel, phase=KernelPhase.STARTED, at_us=1, message=words)
    return KernelChanged(agent_id=A, report=report)


async def test_a_message_about_a_running_kernel_is_stored_once_and_can_be_withdrawn() -> None:
    async with stage([fake_agent("a", devices=1)]) as on:
        session = await on.submit()
        await on.advance()
        (kernel,) = on.state.kernels_of[session]
        await on.on_event(remark(kernel, "takes too much"))
        revision = on.state.revision
        assert on.state.kernels[kernel].message == "takes too much"
        await on.on_event(remark(kernel, "takes too much"))
        assert on.state.revision == revision
        await on.on_event(remark(kernel, None))
        assert on.state.kernels[kernel].message is None
        assert on.session(session).state is SessionState.RUNNING
        on.executor.end_kernel(kernel)
        await on.settle()
