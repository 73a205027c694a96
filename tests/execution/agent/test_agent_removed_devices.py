"""Devices removed from an agent's configuration while kernels hold them."""

import os
import signal

import pytest

from agent_harness import SHARES, TOYS, AgentHarness, agent_config, order, shell
from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.kernel_watch import NOT_CLAIMED
from aliquot_schema.cluster.launching import DevicesChanged, Inventory, KernelPhase
from aliquot_schema.ids import kernel_parts
from aliquot_schema.resources.devices import DeviceHealth

pytestmark = pytest.mark.anyio

HELD, OTHER = TOYS


def toys(inventory: Inventory) -> dict[str, DeviceHealth]:
    return {device.id: device.health for device in inventory.agent.devices if device.kind == "toy"}


async def without(harness: AgentHarness, *devices: str) -> None:
    """A restart of the agent with a configuration without these devices."""
    harness.plugin.present = tuple(id for id in TOYS if id not in devices)
    await harness.restart()


async def test_a_removed_device_is_leaving_until_its_holder_ends(
    harness: AgentHarness, caplog: pytest.LogCaptureFixture
) -> None:
    flag = harness.config.folder.parent / "flag"
    asked = shell(f"while [ ! -e {flag} ]; do sleep 0.05; done; exit 3")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await without(harness, HELD)
    assert toys(harness.inventory) == {HELD: DeviceHealth.LEAVING, OTHER: DeviceHealth.HEALTHY}
    (said,) = (record.getMessage() for record in caplog.records if HELD in record.getMessage())
    session_id = kernel_parts(asked.kernel_id)[0]
    assert said == (
        f"agent agent-1: device toy0 ({HELD}) is no longer in the configuration: no new work; removed when its last "
        f"holder ends; held by {session_id}"
    )
    await without(harness, HELD)
    assert toys(harness.inventory)[HELD] is DeviceHealth.LEAVING
    flag.touch()
    assert (await harness.wait_for_end(asked.kernel_id)).exit_code == 3

    def changes() -> list[dict[str, DeviceHealth]]:
        return [toys(message.inventory) for message in harness.messages if isinstance(message, DevicesChanged)]

    async with harness.message_arrived:
        await harness.message_arrived.wait_for(changes)
    assert changes() == [{OTHER: DeviceHealth.HEALTHY}]


async def test_a_removed_device_that_is_not_held_is_gone_after_a_restart(harness: AgentHarness) -> None:
    await harness.run(shell("true"))
    await without(harness, HELD)
    assert toys(harness.inventory) == {OTHER: DeviceHealth.HEALTHY}


async def test_a_removed_device_that_comes_back_is_healthy_again(harness: AgentHarness) -> None:
    asked = shell("sleep 600")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await without(harness, HELD)
    await without(harness)
    assert toys(harness.inventory) == dict.fromkeys(TOYS, DeviceHealth.HEALTHY)


async def test_no_kernel_is_started_on_a_leaving_device(harness: AgentHarness) -> None:
    asked = shell("sleep 600")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await without(harness, HELD)
    report = await harness.run(order("true", spec={SHARES: {HELD: 100}}))
    assert (report.phase, report.code) == (KernelPhase.REFUSED, "unsupported_resource")
    assert (await harness.run(order("true", spec={SHARES: {OTHER: 100}}))).exit_code == 0


async def test_an_order_that_was_not_started_is_refused_after_its_device_has_left(harness: AgentHarness) -> None:
    """It was stored before the restart. A start now would put new work on a device that is leaving."""
    spawner = harness.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    asked = shell("true")
    await harness.core.launch([asked])
    os.kill(spawner, signal.SIGKILL)
    harness.core._spawner._on_restart = lambda: None
    await without(harness, HELD)
    assert [report.code for report in harness.inventory.kernels] == [NOT_CLAIMED]
    report = await harness.run(asked)
    assert (report.phase, report.code) == (KernelPhase.REFUSED, "unsupported_resource")


@pytest.mark.parametrize("text", ["{", '{"format": 1, "devices": [{"id": 4}]}', '{"format": 9}'])
async def test_an_unreadable_device_record_does_not_prevent_an_agent_from_starting(
    harness: AgentHarness, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.close()
    (harness.config.folder / "devices.json").write_text(text)
    await harness.start_again()
    assert toys(harness.inventory) == dict.fromkeys(TOYS, DeviceHealth.HEALTHY)
    assert any("cannot read the stored list of its devices" in record.getMessage() for record in caplog.records)
    folder = AgentFolder(agent_config(harness.config.folder).folder)
    assert {device.id for device in folder.read_devices()} == {*TOYS, "mem0"}
