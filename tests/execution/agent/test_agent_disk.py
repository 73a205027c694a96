"""An agent whose disk takes nothing refuses what it is to start, so that somebody tries it again."""

import pytest

from agent_stand import Stand, shell
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.resources.leases import EndEvidence

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("broken", ["kernels", "drafts"])
async def test_what_cannot_be_written_is_refused_and_the_next_order_is_taken(stand: Stand, broken: str) -> None:
    folder = stand.config.folder / broken
    away = folder.rename(folder.with_name("away"))
    folder.write_text("no folder")
    asked = shell("true")
    await stand.core.launch([asked])
    report = await stand.told(asked.kernel_id, KernelPhase.REFUSED)
    assert (report.code, report.evidence) == ("unavailable", EndEvidence.REFUSED)
    assert "cannot write to its disk" in (report.message or "")
    folder.unlink()
    away.rename(folder)
    assert (await stand.run(shell("exit 3"))).exit_code == 3
