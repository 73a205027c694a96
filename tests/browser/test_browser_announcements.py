"""What screen readers are told: refusals are alerts, and the focus stays where the next step is."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in

pytestmark = pytest.mark.anyio


async def test_a_wrong_key_is_announced_and_the_focus_goes_back_to_its_field(browser: Browser, demo: OwnServer) -> None:
    page = await browser.new_page()
    await page.goto(demo.url)
    key = page.get_by_label("Key or token")
    await key.fill("not a key")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_have_text("This is neither a valid key nor the server's token.")
    await expect(key).to_be_focused()
    await page.close()


async def test_refusals_on_the_pages_are_announced(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=backtest&id=nothing")
        await expect(page.get_by_role("alert").filter(has_text="not kept any more")).to_be_visible()
        await tab.open("/usage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z")
        await expect(page.get_by_role("alert").first).to_be_visible()
