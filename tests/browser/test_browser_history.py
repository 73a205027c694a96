"""The browser's Back leads to the tab, view or result before; no dialogue is in the history twice."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in

pytestmark = pytest.mark.anyio


async def test_back_leads_to_the_tab_of_the_admin_page_before(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/usage")
        await page.get_by_role("link", name="Admin").click()
        for name in ("Policy", "Quotas", "Alerts"):
            await page.get_by_role("tab", name=name).click()
        for name in ("Quotas", "Policy", "Agents"):
            await page.go_back()
            await expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        await page.go_back()
        await expect(page.get_by_role("heading", name="Usage", exact=True)).to_be_visible()


async def test_back_leads_to_the_backtest_before(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=backtest")
        shown = page.get_by_role("region", name="Backtest", exact=True)
        for order in ("fcfs", "sjf"):
            await page.get_by_role("button", name="Order").click()
            await page.get_by_role("option", name=order).click()
            await page.get_by_role("button", name="Run", exact=True).click()
            await expect(shown).to_contain_text(f"{order}, easy")
        await page.go_back()
        await expect(shown).to_contain_text("fcfs, easy")
        await page.go_back()
        await expect(shown).to_have_count(0)
        await expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()


async def test_back_leads_to_the_view_of_the_calendar_before(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, viewport={"width": 1280, "height": 800}) as tab:
        page = await tab.open("/calendar")
        await page.get_by_text("Day", exact=True).click()
        await expect(page.locator(".fc-col-header-cell")).to_have_count(1)
        await page.go_back()
        await expect(page.locator(".fc-col-header-cell")).to_have_count(7)
        await expect(page).to_have_url(f"{demo.url}/calendar")


async def test_a_closed_dialogue_is_not_in_the_history_twice(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=policy")
        await page.get_by_role("tab", name="Quotas").click()
        await page.get_by_role("button", name="New quota …").click()
        await page.get_by_role("dialog").get_by_role("button", name="Close").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.go_back()
        await expect(page.get_by_role("tab", name="Policy")).to_have_attribute("aria-selected", "true")


async def test_back_closes_what_is_open_over_the_page(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/usage")
        for name in ("Account", "Notice settings", "Go to", "Keyboard"):
            await page.get_by_role("link", name="Sessions").first.click()
            await expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
            if name in ("Go to", "Keyboard"):
                await page.keyboard.press("Control+k" if name == "Go to" else "?")
            else:
                await page.get_by_role("button", name="Account of").click()
            if name == "Notice settings":
                await page.get_by_role("button", name="Notice settings …").click()
            await expect(page.get_by_role("dialog", name=name)).to_be_visible()
            await page.go_back()
            await expect(page.get_by_role("heading", name="Usage", exact=True)).to_be_visible()
            await expect(page.get_by_role("dialog")).to_have_count(0)
