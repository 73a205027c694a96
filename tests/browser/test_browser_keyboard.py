"""The command palette, shortcuts, and browser notifications."""

import asyncio

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Route, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

TOLD = """
() => {
  window.told = [];
  window.Notification = class {
    static permission = "granted";
    static requestPermission = async () => "granted";
    constructor(title, { body }) { window.told.push([title, body]); }
  };
}
"""


@NEEDS_AXE
async def test_the_command_palette_opens_sessions_nodes_and_pages(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        session_id = await submit(client, "true", {"cpu": "1"}, name="findable")
        await until_state(client, session_id, "completed")
        page = await tab.open("/usage")
        await page.get_by_role("heading", name="Usage", exact=True).wait_for()
        await page.keyboard.press("Control+k")
        palette = page.get_by_role("dialog", name="Go to")
        await expect(palette.get_by_role("combobox")).to_be_focused()
        await page.keyboard.type("findab")
        await expect(palette.get_by_role("option")).to_have_count(1)
        assert await tab.accessibility() == []
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{demo.url}/sessions/{session_id}")
        await page.get_by_role("heading", name="findable").wait_for()
        await page.keyboard.press("Control+k")
        await expect(palette.get_by_role("combobox")).to_be_focused()
        await page.keyboard.type("demo-2")
        await expect(palette.get_by_role("option").first).to_contain_text("node")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{demo.url}/?node=demo-2")


async def test_keys_typed_while_the_command_palette_loads_are_kept(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        asked, is_typed = asyncio.Event(), asyncio.Event()

        async def late(route: Route) -> None:
            asked.set()
            await is_typed.wait()
            await route.continue_()

        await tab.page.route("**/Palette*.js", late)
        page = await tab.open("/usage")
        await page.get_by_role("heading", name="Usage", exact=True).wait_for()
        await page.keyboard.press("Control+k")
        await asyncio.wait_for(asked.wait(), 20)
        await page.keyboard.type("demmo")
        await page.keyboard.press("Backspace")
        await page.keyboard.press("Backspace")
        await page.keyboard.type("o-")
        is_typed.set()
        field = page.get_by_role("dialog", name="Go to").get_by_role("combobox")
        await expect(field).to_be_focused()
        await page.keyboard.type("2")
        await expect(field).to_have_value("demo-2")


async def test_keyboard_shortcuts_open_pages_and_the_search(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/")
        await page.locator(".tile").first.wait_for()
        await page.keyboard.press("g")
        await page.keyboard.press("q")
        await expect(page).to_have_url(f"{demo.url}/sessions")
        await page.keyboard.press("/")
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await page.keyboard.type("g u?")
        await expect(page).to_have_url(f"{demo.url}/sessions?q=g+u%3F")
        await page.get_by_role("heading", name="Sessions").click()
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Ctrl K")


async def test_notifications_are_off_until_asked_for(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        await tab.page.add_init_script(f"({TOLD})()")
        page = await tab.open("/")
        await page.locator(".dot.live").wait_for()
        unheard = await submit(client, "true", {"cpu": "1"}, name="unheard")
        await until_state(client, unheard, "completed")
        await page.get_by_role("button", name="Account of root").click()
        await page.get_by_text("Browser notifications of my sessions").click()
        await page.keyboard.press("Escape")
        heard = await submit(client, "exit 2", {"cpu": "1"}, name="heard")
        await until_state(client, heard, "failed")
        await page.wait_for_function("() => window.told.some(([title]) => title === 'heard failed')")
        assert not any("unheard" in title for title, _ in await page.evaluate("window.told"))


async def test_a_dialogue_is_filled_in_and_sent_by_the_keyboard(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=access")
        await page.get_by_role("button", name="New user …").press("Enter")
        dialogue = page.get_by_role("dialog", name="New user")
        await expect(dialogue.get_by_label("Name")).to_be_focused()
        await page.keyboard.press("Enter")  # the button is disabled without a name
        await page.keyboard.type("kim")
        await expect(dialogue.get_by_label("Name")).to_have_value("kim")
        await page.keyboard.press("Enter")
        await expect(dialogue).to_have_count(0)
        await expect(page.get_by_role("row", name="kim")).to_be_visible()
        await page.goto(f"{demo.url}/admin?tab=agents")
        await page.get_by_role("button", name="Edit the labels of demo-1").press("Enter")
        await expect(page.get_by_role("dialog").locator("textarea")).to_be_focused()
        await page.keyboard.type("rack=7")
        await page.keyboard.press("Enter")
        await page.keyboard.type("zone=a")
        await expect(page.get_by_role("dialog").locator("textarea")).to_have_value("rack=7\nzone=a")
