"""Launch orders whose connection ends meanwhile."""

import asyncio

import pytest

from agent_harness import AgentHarness, shell
from aliquot_schema.cluster.launching import KernelPhase

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(8))
async def test_a_launch_order_is_completed_after_its_caller_was_cancelled(harness: AgentHarness, turns: int) -> None:
    """Cancelled at any await: it starts by itself, and repeating the order starts nothing twice."""
    asked = shell("echo start >> $RESULT_DIR/starts; exit 3")
    ordering = asyncio.create_task(harness.core.launch([asked]))
    for _ in range(turns):
        await asyncio.sleep(0)
    ordering.cancel()
    await asyncio.gather(ordering, return_exceptions=True)
    if turns:
        assert (await harness.wait_for_end(asked.kernel_id)).exit_code == 3
    await harness.core.launch([asked])
    ended = await harness.wait_for_end(asked.kernel_id)
    assert (ended.phase, ended.exit_code) == (KernelPhase.EXITED, 3)
    session = asked.kernel_id.split(".")[0]
    written = (harness.config.folder / "sessions" / session / "result" / "starts").read_text()
    assert written.splitlines() == ["start"]
