"""The page of a job array: its tasks by state, and their combined output."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

TASK = 'echo "task $ALIQUOT_ARRAY_INDEX says hello"; [ $((ALIQUOT_ARRAY_INDEX % 3)) != 1 ]'


@NEEDS_AXE
async def test_the_logs_of_array_tasks_are_shown_together_and_filtered(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        array = await submit(client, TASK, {"cpu": "1"}, name="thrice", array="0-8")
        await until_state(client, array, "failed")
        page = await tab.open(f"/sessions/{array}")
        logs = page.get_by_role("log", name="Logs")
        await expect(logs).to_contain_text("[1] task 1 says hello")
        await expect(logs).to_contain_text("[7] task 7 says hello")
        await expect(logs).not_to_contain_text("task 0")
        assert await tab.accessibility() == []
        await page.get_by_role("textbox", name="Tasks").fill("0, 2-3")
        await expect(logs).to_contain_text("[3] task 3 says hello")
        await expect(logs).not_to_contain_text("task 1")
        await page.reload()
        await expect(logs).to_contain_text("[2] task 2 says hello")
        await page.get_by_role("link", name="3 failed").click()
        await expect(page).to_have_url(f"{demo.url}/sessions?state=failed&array={array}")
        await expect(page.locator(".queue tbody tr")).to_have_count(3)


async def test_the_logs_of_all_ranks_of_a_gang_are_shown_together(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        gang = await submit(client, "echo here is rank $ALIQUOT_RANK", {"cpu": "1"}, name="pair", cluster_size=2)
        await until_state(client, gang, "completed")
        page = await tab.open(f"/sessions/{gang}")
        await expect(page.get_by_role("log", name="Output")).to_contain_text("rank 0")
        await page.get_by_role("region", name="Log").get_by_role("button", name="Rank 0").click()
        await page.get_by_role("option", name="All ranks").click()
        logs = page.get_by_role("log", name="Logs")
        await expect(logs).to_contain_text("[0] here is rank 0")
        await expect(logs).to_contain_text("[1] here is rank 1")
