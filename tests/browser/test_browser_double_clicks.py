"""A double click does what one click does."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Locator, Page, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

LIMIT = "query ($id: ID!) { session(id: $id) { time_limit } }"
ANSWERED = "() => window.asked.length > 0"
RECORD = """
window.asked = [];
window.sent = [];
const sent = window.fetch;
window.fetch = (...given) => {
  const name = /^mutation (\\w+)/.exec(JSON.parse(given[1]?.body ?? "{}").query ?? "")?.[1];
  if (name) window.sent.push(name);
  const answer = sent(...given);
  return name ? answer.finally(() => window.asked.push(name)) : answer;
};
"""
"""Notes each mutation when it is sent, and again when it is answered."""


async def double_click(page: Page, button: Locator, *, within: str = "() => true") -> None:
    """The second click comes when the first has had its effect, at the same place."""
    await button.hover()
    for count in (1, 2):
        await page.mouse.down(click_count=count)
        await page.mouse.up(click_count=count)
        await page.wait_for_function(within)


async def test_a_double_click_extends_a_session_once(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        id_ = await submit(client, "sleep 600", {"cpu": "1"}, time_limit=3600, name="long")
        await until_state(client, id_, "running")
        async with signed_in(browser, demo) as tab:
            await tab.page.add_init_script(RECORD)
            page = await tab.open(f"/sessions/{id_}")
            await double_click(page, page.get_by_role("button", name="Extend"), within=ANSWERED)
            assert await page.evaluate("window.sent") == ["ExtendSession"]
            await expect(page.get_by_text("Its time limit is later now.")).to_be_visible()
            assert (await client.execute(LIMIT, {"id": id_}))["session"] == {"time_limit": 7200}


async def test_a_double_click_presses_no_other_button_that_has_come_below_it(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        await tab.page.add_init_script(RECORD)
        page = await tab.open("/admin?tab=agents")
        turned = page.get_by_role("button", name="Make schedulable: demo-1")
        shown = "() => document.querySelector('[aria-label=\"Make schedulable: demo-1\"]') !== null"
        await double_click(page, page.get_by_role("button", name="Make unschedulable: demo-1"), within=shown)
        assert await page.evaluate("window.sent") == ["SetSchedulable"]
        await expect(page.get_by_text("demo-1 is not schedulable.")).to_be_visible()
        await turned.click()
        await expect(page.get_by_text("demo-1 is schedulable.")).to_be_visible()


async def test_a_dialogue_that_a_double_click_opens_stays_open(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/calendar?view=day")
        dialogue = page.get_by_role("dialog")
        await double_click(page, page.get_by_role("button", name="Book …"))
        await dialogue.get_by_label("Name").fill("paper")
        await page.mouse.click(5, 5)
        await expect(dialogue).to_have_count(0)


async def test_buttons_that_change_nothing_can_be_pressed_fast(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/calendar?view=day")
        title = page.locator(".calendar b[aria-live]")
        today = await title.inner_text()
        await double_click(page, page.get_by_role("button", name="Later"))
        await page.get_by_role("button", name="Earlier").click()
        await expect(title).not_to_have_text(today)
        await page.get_by_role("button", name="Earlier").click()
        await expect(title).to_have_text(today)
