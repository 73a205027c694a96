"""The dialogue that confirms a drain, and the pages while more sessions wait than are listed."""

import re

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio


@NEEDS_AXE
async def test_a_drain_dialogue_names_some_sessions_and_counts_the_others(browser: Browser, demo: OwnServer) -> None:
    gpus = {"cuda.device": "1"}
    async with demo.client() as client:
        for number in range(16):
            await submit(client, "sleep 1000", gpus, name=f"run-{number}")
        for number in range(8):
            await submit(client, "true", gpus, name=f"next-{number}")
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin")
        await page.get_by_role("button", name="Drain demo-1").click()
        await page.get_by_text("Preempt its sessions").click()
        effect = page.get_by_role("region", name="Effect")
        await expect(effect).to_contain_text("8 sessions would be preempted and queued again.")
        await expect(effect.get_by_role("listitem")).to_have_count(5)
        await expect(effect).to_contain_text("and 3 more")
        await page.set_viewport_size({"width": 1000, "height": 800})
        await tab.open("/")
        await expect(page.get_by_role("link", name="and 4 more")).to_be_visible()
        assert await tab.accessibility() == []


async def test_sessions_that_select_all_leaves_out_are_counted_and_loadable(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        for number in range(105):
            await submit(client, "true", {"cpu": "1"}, name=f"held-{number}", held=True)
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/sessions")
        await page.get_by_label("Select all").check()
        bar = page.get_by_role("group", name="Selected sessions")
        await expect(bar).to_contain_text("100 selected")
        await expect(bar).to_contain_text("more are not loaded, and not selected.")
        await bar.get_by_role("button", name="Load all").click()
        await expect(bar.get_by_role("button", name="Load all")).to_have_count(0)
        await page.get_by_label("Select all").check()
        await expect(bar).to_contain_text(re.compile(r"1\d\d selected"))
        await expect(bar).not_to_contain_text("100 selected")
