"""Every page: no foreign requests, no errors, no axe violations; light, dark, and on a phone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, Route, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

FIRST_LOAD_BYTES_MAX = 300_000
FORMS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1440, "height": 900}},
    "phone": {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}, "has_touch": True},
}
TRANSFERRED = """
() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)
"""
CSV_HEADS = "from,seconds,project,gpu_hours,utilization_pct"
TREND_MS_MAX = 120_000
"""The queue is sampled every ten seconds; a new server shows no trend yet."""
WIDTHS = "() => [document.documentElement.scrollWidth, innerWidth]"


@NEEDS_AXE
@pytest.mark.parametrize("form", FORMS)
async def test_every_page_has_no_errors_and_is_accessible(browser: Browser, demo: OwnServer, form: str) -> None:
    async with _busy(demo) as runs:
        found = await _looked_over(browser, demo, runs, form)
    assert {path: bad for path, bad in found.items() if bad} == {}


@asynccontextmanager
async def _busy(demo: OwnServer) -> AsyncIterator[str]:
    """A running session (its id is returned), and a pending one."""
    async with demo.client() as client:
        runs = await submit(client, "echo hello; sleep 1000", {"cuda.shares": "1.2"}, name="half-and-more")
        await until_state(client, runs, "running")
        waits = await submit(client, "true", {"cuda.device": "8"}, cluster_size=2, name="waits")
        try:
            yield runs
        finally:
            for session_id in (waits, runs):
                await client.change(CANCEL, {"id": session_id})


async def _looked_over(browser: Browser, demo: OwnServer, runs: str, form: str) -> dict[str, list[str]]:
    """axe violations, by page."""
    pages = {
        "/": ".tile",
        "/queue": ".queue",
        f"/sessions/{runs}": ".log-line",
        "/submit": "textarea",
        f"/submit?from={runs}": ".submit-preview .note",
        "/usage": "canvas",
        "/admin": "table",
        "/admin?tab=policy": ".groups",
        "/admin?tab=quotas": ".empty",
        "/admin?tab=alerts": "table",
        "/admin?tab=doctor": ".facts",
        "/admin?tab=audit": "table",
        "/admin?tab=access": ".empty",
    }
    found: dict[str, list[str]] = {}
    async with signed_in(browser, demo, **FORMS[form]) as tab:
        for path, landmark in pages.items():
            page = await tab.open(path)
            await page.locator(landmark).first.wait_for()
            found[path] = await tab.accessibility()
            wide, room = await page.evaluate(WIDTHS)
            assert wide <= room, f"{path} is wider than the screen"
    return found


async def test_the_sign_in_page_refuses_a_wrong_token(browser: Browser, demo: OwnServer) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{demo.url}/queue")
    await page.get_by_label("Token").fill("not the token at all")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("This is neither a valid key nor the server's token.")).to_be_visible()
    await page.get_by_label("Token").fill(demo.token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert await page.evaluate("document.cookie") == "", "scripts cannot read the cookie"
    await context.close()


async def test_the_size_of_the_first_page_load_is_limited(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/")
        await page.locator(".tile").first.wait_for()
        first_load = await page.evaluate(TRANSFERRED)
        print(f"first load: {first_load / 1000:.0f} kB")
        assert 50_000 < first_load <= FIRST_LOAD_BYTES_MAX


async def test_a_device_shows_its_holder(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.device": "1"}, name="holder", time_limit=900.0)
        await until_state(client, runs, "running")
        page = await tab.open("/")
        tile = page.locator(".tile", has_text="holder").first
        await tile.hover()
        card = page.get_by_role("tooltip")
        await expect(card).to_contain_text("until")
        await expect(card.get_by_role("img", name="Busy in the last hour")).to_be_visible()
        await expect(page.get_by_role("img", name="Held in the last")).to_be_visible(timeout=TREND_MS_MAX)
        await page.keyboard.press("Escape")
        await expect(card).to_be_hidden()
        await _walk(page)
        await tile.click()
        dialogue = page.get_by_role("dialog")
        await dialogue.get_by_role("link", name="holder").click()
        await expect(page.get_by_role("heading", name="holder")).to_be_visible()


async def _walk(page: Page) -> None:
    """Each node is one Tab stop; the arrow keys move within it."""
    tiles = page.locator(".tile")
    assert [await tiles.nth(index).get_attribute("tabindex") for index in (0, 1, 8)] == ["0", "-1", "0"]
    await tiles.nth(0).focus()
    await page.keyboard.press("ArrowRight")
    await expect(tiles.nth(1)).to_be_focused()
    await page.keyboard.press("End")
    await expect(tiles.nth(7)).to_be_focused()


async def test_usage_over_time_is_plotted_and_exported_as_csv(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.device": "2"}, name="counted")
        await until_state(client, runs, "running")
        page = await tab.open("/usage?range=week")
        over_time = page.get_by_role("region", name="Over time", exact=True)
        await expect(over_time.get_by_role("heading", name="per 6 hours")).to_be_visible()
        await expect(over_time.locator("figure canvas")).to_have_count(2)
        await expect(page.get_by_role("region", name="The queue over time").locator("canvas")).to_have_count(3)
        await page.get_by_role("radio", name="30 d").click()
        await page.get_by_role("radio", name="By project").click()
        await expect(over_time.get_by_role("row", name="default")).to_be_visible()
        async with page.expect_download() as downloading:
            await over_time.get_by_role("button", name="CSV of GPU-hours over time").click()
        file = await downloading.value
        lines = _lines(Path(await file.path()))
        assert (file.suggested_filename, lines[0]) == ("usage-project-month.csv", CSV_HEADS)
        assert lines[1].split(",")[1:3] == ["86400", "default"]
        await client.change(CANCEL, {"id": runs})


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


async def test_a_policy_change_is_reviewed_before_it_is_saved(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/admin?tab=policy")
        await page.get_by_label("Backfill depth").fill("42")
        await page.get_by_role("button", name="Review 1 change").click()
        await expect(page.get_by_role("dialog")).to_contain_text("backfill_depth")
        await expect(page.locator("ins")).to_have_text("42")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The policy is changed")).to_be_visible()
        assert (await client.execute("{ policy { backfill_depth } }"))["policy"]["backfill_depth"] == 42


async def test_an_agent_is_drained_and_resumed(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin")
        await page.get_by_role("button", name="Drain demo-2").click()
        await page.get_by_label("Reason").fill("new fans")
        await page.get_by_role("button", name="Drain", exact=True).click()
        await expect(page.get_by_text("new fans")).to_be_visible()
        await page.get_by_role("button", name="Resume demo-2").click()
        await expect(page.get_by_role("button", name="Drain demo-2")).to_be_visible()


async def test_a_quota_is_set_and_taken_away(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=quotas")
        await page.get_by_role("button", name="New quota").click()
        await page.get_by_label("Name").fill("ada")
        await expect(page.get_by_text("There is no user ada yet.")).to_be_visible()
        limit = page.get_by_role("group", name="Maximum held")
        await limit.get_by_label("GPUs").fill("some")
        await expect(limit).to_contain_text("Enter a number of GPUs")
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()
        await limit.get_by_label("GPUs").fill("4")
        await expect(limit).to_contain_text("Now 0 GPUs held.")
        await page.get_by_label("Waiting tasks, at most").fill("10")
        assert await tab.accessibility("[role=dialog]") == []
        await page.get_by_role("button", name="Save").click()
        row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="user ada"))
        await expect(row).to_contain_text("4 GPUs")
        await expect(row).to_contain_text("0 of 10")
        await page.get_by_role("button", name="Remove the quota of ada").click()
        await page.get_by_role("button", name="Remove the quota", exact=True).click()
        await expect(page.get_by_text("There are no quotas")).to_be_visible()


async def test_a_refusal_is_read_aloud_and_dismissed_over_an_open_dialogue(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=quotas")
        await page.get_by_role("button", name="New quota").click()
        dialogue = page.get_by_role("dialog")
        await dialogue.get_by_label("Name").fill("a" * 200)
        await dialogue.get_by_label("Waiting tasks, at most").fill("1")
        await dialogue.get_by_role("button", name="Save").click()
        refusal = page.get_by_role("alert")
        await expect(refusal).to_contain_text("at most 128 printable characters")
        await refusal.get_by_role("button", name="Dismiss this message").click()
        await expect(refusal).to_have_count(0)
        await expect(dialogue).to_be_visible()


async def test_an_unknown_tab_in_the_address_opens_the_first(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=nodes")
        await expect(page.get_by_role("tab", name="Agents")).to_have_attribute("aria-selected", "true")
        await expect(page.get_by_role("button", name="Drain demo-2")).to_be_visible()


async def test_the_doctor_asks_every_agent(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=doctor")
        await page.get_by_role("button", name="Examine all agents").click()
        await expect(page.get_by_text("2 agents examined")).to_be_visible()
        await expect(page.get_by_text("No differences")).to_be_visible()


async def test_the_doctor_shows_the_problems_of_the_server_itself(browser: Browser) -> None:
    async with OwnServer("--demo", environment={"ALIQUOT_DISK_FLOOR": "900t"}) as full, signed_in(browser, full) as tab:
        page = await tab.open("/admin?tab=doctor")
        servers = page.get_by_role("region", name="Servers")
        await expect(servers.get_by_text("disk low", exact=True)).to_be_visible()
        await expect(servers.locator(".note").first).to_contain_text("must stay free")


async def test_statements_of_earlier_months_are_offered_while_this_month_has_none(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/usage")
        answers = {"data": {"statements": []}}
        await page.route("**/graphql", lambda route: route.fulfill(json=answers) if _asks(route) else route.continue_())
        await page.reload()
        statements = page.get_by_role("region", name="Statements")
        await expect(statements).to_contain_text("No project has a statement for this month.")
        await expect(statements.get_by_role("option")).to_have_count(12)


def _asks(route: Route) -> bool:
    return "query Statements(" in (route.request.post_data or "")
