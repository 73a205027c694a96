"""A computer whose clock is wrong."""

import re

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from aliquot.clock import SystemClock
from browser_tab import signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("hours", [-5, 5])
async def test_pages_go_by_the_clock_of_the_server(browser: Browser, demo: OwnServer, hours: int) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.device": "1"}, name="runs")
        await until_state(client, runs, "running")
        waits = await submit(client, "true", {"cuda.device": "8"}, cluster_size=2, name="waits")
        await tab.page.clock.install(time=SystemClock().now_us() / 1000 + hours * 3_600_000)
        page = await tab.open("/sessions")
        waited = page.get_by_role("row", name="Select waits").locator("[data-label=waited]")
        await expect(waited).to_have_text(re.compile(r"^\d+ (ms|s|min|min \d+ s)$"))
        await tab.open("/usage?range=hour")
        await expect(page.locator(".plot canvas").first).to_be_visible()
        await expect(page.get_by_text("give a time before")).to_have_count(0)
        for session in (waits, runs):
            await client.change(CANCEL, {"id": session})
