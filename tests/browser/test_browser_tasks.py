"""Five tasks of a new user, each at most four clicks from the first page; fifth: `test_browser_try`."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from browser_tab import NEEDS_AXE, counts_clicks, signed_in
from e2e_sessions import submit, until_state

pytestmark = [pytest.mark.anyio, NEEDS_AXE]


async def test_submit_a_job_and_read_its_log(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/")
        async with counts_clicks(tab, most=2):
            await page.get_by_role("link", name="Submit").click()
            await page.get_by_label("Command").fill("echo what it prints")
            await page.get_by_role("button", name="Submit", exact=True).click()
            await expect(page.get_by_role("log", name="Output")).to_contain_text("what it prints")
            assert await tab.accessibility() == []


async def test_see_why_a_session_waits_and_what_would_help(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        holder = await submit(client, "sleep 1000", {"cuda.device": "7"}, name="holder", cluster_size=2)
        await until_state(client, holder, "running")
        mine = await submit(client, "sleep 1000", {"cuda.device": "8"}, name="mine")
        page = await tab.open("/")
        async with counts_clicks(tab, most=2):
            await page.get_by_role("link", name="Sessions").click()
            await page.get_by_role("link", name="mine", exact=True).click()
            reason = page.get_by_role("region", name="Reason for waiting")
            await expect(reason).to_contain_text("holder")
            await expect(reason.get_by_role("heading", name="It would start")).to_be_visible()
            assert await tab.accessibility() == []
        for one in (mine, holder):
            await client.change(CANCEL, {"id": one})


async def test_see_which_session_holds_a_gpu_and_until_when(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        holder = await submit(client, "sleep 1000", {"cuda.device": "8"}, name="all-of-one", time_limit=3600.0)
        await until_state(client, holder, "running")
        page = await tab.open("/")
        async with counts_clicks(tab, most=1):
            await page.locator(".tile").filter(has_text="all-of-one").nth(3).click()
            dialogue = page.get_by_role("dialog")
            await expect(dialogue).to_contain_text("root holds 1.00: all-of-one")
            await expect(dialogue).to_contain_text("until ")
            assert await tab.accessibility() == []
        await client.change(CANCEL, {"id": holder})


async def test_share_a_link_to_the_failed_tasks_of_an_array(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        array = await submit(client, "exit $((ALIQUOT_ARRAY_INDEX % 2))", {"cpu": "1"}, name="halves", array="0-5")
        await until_state(client, array, "failed")
        page = await tab.open("/")
        async with counts_clicks(tab, most=4):
            await page.get_by_role("link", name="Sessions").click()
            await page.get_by_role("radio", name="Ended").click()
            # The newest rows: its tasks.
            await page.get_by_role("link", name="array halves").first.click()
            await expect(page).to_have_url(f"{demo.url}/sessions/{array}")
            await page.get_by_role("link", name="3 failed").click()
            await expect(page.locator(".queue tbody tr")).to_have_count(3)
        address = page.url
    async with signed_in(browser, demo) as colleague:
        await colleague.page.goto(address)
        await expect(colleague.page.locator(".queue tbody tr")).to_have_count(3)
        await expect(colleague.page.get_by_role("button", name="tasks of halves")).to_be_visible()
        assert await colleague.accessibility() == []
