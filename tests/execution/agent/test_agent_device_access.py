"""Confinement of jobs to their own device files: jobs get what the agent reports."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_harness import SHARES, TOYS, AgentHarness, ToyPlugin, agent_config, shell
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.resources.devices import DeviceAccess, ResourceSpec

pytestmark = pytest.mark.anyio

MEMORY_DEVICES = 1
FULL, RANDOM = 7, 8
"""Minors of /dev/full and /dev/random, as two accelerators' files."""
TRY = """
for name in null zero full random urandom; do
  if (: < /dev/$name) 2> /dev/null; then echo $name; fi
done
"""


class GatedPlugin(ToyPlugin):
    """Two devices with a file each."""

    tells_apart = True
    is_closable = True

    def gate(self, spec: ResourceSpec) -> DeviceGate | None:
        given = spec.get(SHARES, {})
        allowed = tuple(minor for toy, minor in zip(TOYS, (FULL, RANDOM), strict=True) if toy in given)
        if not self.is_closable:
            allowed = tuple(range(40_000))
        gate = DeviceGate(major=MEMORY_DEVICES, first=FULL, last=RANDOM, allowed=allowed)
        return gate if self.tells_apart else None


@pytest.fixture
async def gated(agent_home: Path, anyio_backend: str) -> AsyncIterator[AgentHarness]:
    harness = AgentHarness(agent_config(agent_home))
    harness.plugin = GatedPlugin()
    harness._new_core()
    await harness.open()
    yield harness
    await harness.close()


async def opened(harness: AgentHarness, *toys: int) -> set[str]:
    """The files that a job with these devices can open."""
    asked = shell(TRY, spec={SHARES: {TOYS[toy]: 200 for toy in toys}} if toys else {})
    assert (await harness.run(asked)).exit_code == 0, harness.output(asked.kernel_id)
    return set(harness.output(asked.kernel_id).split())


async def test_a_job_can_open_exactly_the_device_files_that_the_agent_reports(gated: AgentHarness) -> None:
    common, own = {"null", "zero", "urandom"}, ({"full"}, {"random"})
    seen = [await opened(gated), await opened(gated, 0), await opened(gated, 1), await opened(gated, 0, 1)]
    if gated.inventory.agent.capabilities.device_access is DeviceAccess.CGROUP:
        assert seen == [common, common | own[0], common | own[1], common | own[0] | own[1]]
    else:
        assert seen == [common | own[0] | own[1]] * 4


async def test_an_agent_reports_no_device_isolation_when_device_files_are_indistinguishable(
    gated: AgentHarness,
) -> None:
    assert isinstance(gated.plugin, GatedPlugin)
    gated.plugin.tells_apart = False
    assert (await gated.core.inventory()).agent.capabilities.device_access is DeviceAccess.ENV
    assert await opened(gated) == {"null", "zero", "full", "random", "urandom"}


async def test_a_job_does_not_start_when_its_device_gate_cannot_be_set_up(gated: AgentHarness) -> None:
    assert isinstance(gated.plugin, GatedPlugin)
    gated.plugin.is_closable = False
    asked = shell("echo it runs")
    report = await gated.run(asked)
    if gated.inventory.agent.capabilities.device_access is DeviceAccess.CGROUP:
        assert report.exit_code == 126
        assert "a device gate allows at most" in (report.message or "")
        assert gated.output(asked.kernel_id) == ""
    else:
        assert report.exit_code == 0


async def test_an_agent_without_gated_devices_reports_no_device_isolation(harness: AgentHarness) -> None:
    assert harness.inventory.agent.capabilities.device_access is DeviceAccess.ENV
