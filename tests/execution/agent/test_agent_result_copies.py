"""Copies of results to `results-folder`: a failure is reported with the readings until the copy has succeeded."""

from pathlib import Path

import pytest

from agent_harness import AgentHarness, agent_config, shell, wait_until
from aliquot.execution.agent.results import sending
from aliquot.execution.settings import DiskRules
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.ids import kernel_parts

pytestmark = pytest.mark.anyio


def last_fault(harness: AgentHarness) -> str | None:
    """What the newest readings say of copies."""
    readings = [message for message in harness.messages if isinstance(message, NewReadings)]
    return readings[-1].copy_fault if readings else None


async def test_a_copy_that_fails_is_reported_until_it_succeeds(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "AGAIN_S", 0.2)
    store = agent_home.parent / "store"
    store.write_text("a file where a folder should be")
    disk = DiskRules(results_folder=str(store))
    harness = AgentHarness(agent_config(agent_home, disk=disk))
    await harness.open()
    try:
        asked = shell('echo 1 > "$RESULT_DIR/loss"')
        assert (await harness.run(asked)).exit_code == 0
        session_id, _, _ = kernel_parts(asked.kernel_id)
        await wait_until(lambda: last_fault(harness) is not None)
        fault = last_fault(harness)
        assert fault is not None
        assert fault.startswith(f"the results of {session_id} cannot be copied to results-folder")
        assert "Not a directory" in fault or "File exists" in fault
        store.unlink()
        await wait_until(lambda: last_fault(harness) is None)
        assert (store / session_id).is_dir()
    finally:
        await harness.close()
