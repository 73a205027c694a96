"""Tables longer than what is loaded at a time: every row can be reached, and the keyboard goes on at the new ones."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in

pytestmark = pytest.mark.anyio

QUOTA = 'mutation ($weight: Int) { set_quota(input: {scope: project, name: "x", weight: $weight}) { __typename } }'


async def test_show_more_of_the_audit_log_keeps_the_rows_and_the_focus(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        for weight in range(1, 76):
            await client.execute(QUOTA, {"weight": weight})
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=audit")
        rows = page.get_by_role("region", name="Past changes").locator("tbody tr")
        await expect(rows).to_have_count(50)
        await page.get_by_role("button", name="Show more").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody tr:nth-child(51):focus-within")).to_have_count(1)
        assert await rows.count() > 50
