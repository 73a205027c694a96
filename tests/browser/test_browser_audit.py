"""The Audit page: changes by actor, and which session held a device."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import alloc_map, submit, until_state

pytestmark = pytest.mark.anyio


@NEEDS_AXE
async def test_past_changes_and_holders_of_a_device_can_be_looked_up(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        held = await submit(client, "sleep 1000", {"cuda.device": "1"}, name="held")
        (kernel,) = (await until_state(client, held, "running"))["kernels"]
        devices = await alloc_map(client, kernel["agent_id"])
        (gpu,) = (device for device, share in devices.items() if float(share))
        page = await tab.open("/admin?tab=audit")
        changes = page.get_by_role("region", name="Past changes")
        await expect(changes.get_by_role("row").filter(has_text="session.queued")).to_contain_text(held)
        await expect(changes).not_to_contain_text("lease.granted")  # done by the server itself

        await page.get_by_role("radio", name="Include the server's own").click()
        granted = changes.get_by_role("row").filter(has_text="lease.granted")
        await expect(granted).to_contain_text("pass ")
        await page.get_by_label("Subject").fill("nobody")
        await expect(page.get_by_text("No change matches")).to_be_visible()
        await page.get_by_label("Subject").fill(held)
        await expect(granted).to_have_count(0)
        await expect(changes.get_by_role("row").filter(has_text="session.queued")).to_be_visible()

        gpus = page.get_by_role("region", name="Holders of a device")
        await gpus.get_by_label("Device").click()
        await page.get_by_role("option", name="another one, by its id").click()
        await gpus.get_by_label("Id of the device").fill(gpu)
        await gpus.get_by_role("button", name="Search").click()
        await expect(gpus.get_by_role("row").filter(has_text=held)).to_contain_text("still held")
        assert await tab.accessibility() == []
        await tab.open(f"/admin?tab=audit&device={gpu}")
        await expect(gpus.get_by_role("button", name="Device")).to_contain_text("cuda")
        await expect(gpus.get_by_role("row").filter(has_text=held)).to_contain_text("still held")
        await gpus.get_by_label("When").fill("2020-01-01T12:00")
        await gpus.get_by_role("button", name="Search").click()
        await expect(gpus).to_contain_text("No holders")
