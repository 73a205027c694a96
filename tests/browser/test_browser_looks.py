"""The demo cluster fits one screen, and views opened by a click pass axe."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Locator, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from browser_tab import NEEDS_AXE, Tab, signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

SCREEN = {"width": 1440, "height": 900}
WIDTHS = "() => [document.documentElement, ...document.querySelectorAll('.queue')].map((one) => one.scrollWidth)"
LINES = "(one) => one.getClientRects().length"
HEIGHTS = "() => [document.documentElement.scrollHeight, innerHeight]"


async def test_two_nodes_of_eight_devices_fit_a_screen(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, viewport=SCREEN) as tab:
        page = await tab.open("/")
        await expect(page.locator(".tile")).to_have_count(16)
        high, room = await page.evaluate(HEIGHTS)
        assert high <= room


@NEEDS_AXE
async def test_the_sign_in_page_is_accessible(browser: Browser, demo: OwnServer) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{demo.url}/login")
    await page.get_by_role("button", name="Sign in").wait_for()
    assert await Tab(page=page, url=demo.url).accessibility() == []
    await context.close()


@NEEDS_AXE
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_of_waiting_running_and_ended_sessions_are_accessible(
    browser: Browser, demo: OwnServer, scheme: str
) -> None:
    async with signed_in(browser, demo, color_scheme=scheme) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.shares": "0.5"}, name=f"runs-{scheme}")
        waits = await submit(client, "true", {"cuda.device": "8"}, cluster_size=2, name=f"waits-{scheme}")
        page = await tab.open(f"/sessions/{waits}")
        await expect(page.get_by_role("heading", name=f"waits-{scheme}")).to_be_visible()
        assert await tab.accessibility() == []
        await client.change(CANCEL, {"id": waits})
        await tab.open("/queue")
        for view, name in (("Running", f"runs-{scheme}"), ("Ended", f"waits-{scheme}")):
            await page.get_by_role("radio", name=view).click()
            await expect(page.get_by_role("link", name=name)).to_be_visible()
            assert await tab.accessibility() == []
        await client.change(CANCEL, {"id": runs})


@pytest.mark.parametrize("width", [1300, 375])
async def test_a_long_name_does_not_widen_a_page(browser: Browser, demo: OwnServer, width: int) -> None:
    view = {"width": width, "height": 850}
    async with signed_in(browser, demo, viewport=view) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.shares": "0.5"}, name="x_" * 100)
        waits = await submit(client, "true", {"cuda.device": "8"}, cluster_size=2, name="y_" * 100)
        for path in (f"/sessions/{runs}", f"/sessions/{waits}", "/sessions", "/"):
            page = await tab.open(path)
            await expect(page.get_by_text("x_" * 100).first).to_be_visible()
            assert max(await page.evaluate(WIDTHS)) <= width
        for one in (waits, runs):
            await client.change(CANCEL, {"id": one})


async def test_a_name_from_right_to_left_leaves_the_figures_beside_it_in_place(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.shares": "0.5"}, name="تدريب")
        page = await tab.open("/sessions?state=running")
        cell = page.locator(".session-cell")
        assert await _left(cell.locator("b")) < await _left(cell.locator("code"))
        assert await cell.locator("code").evaluate(LINES) == 1
        await tab.open("/")
        held = page.get_by_role("list", name="Devices held").get_by_role("listitem")
        await expect(held).to_have_count(1)
        assert await _left(held) + 30 < await _left(held.locator("b"))  # after the name, not between it and its colour
        await client.change(CANCEL, {"id": runs})


@NEEDS_AXE
async def test_an_empty_table_is_accessible_on_a_phone(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, viewport={"width": 360, "height": 740}) as tab:
        page = await tab.open("/admin?tab=access")
        await expect(page.get_by_text("aliquot user add vera")).to_be_visible()
        assert await tab.accessibility() == []


UNCOVERED = """
(one) => {
  const { left, top, right, bottom, width, height } = one.getBoundingClientRect();
  const isIn = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
  return isIn && one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}
"""


@pytest.mark.parametrize(
    ("width", "height"), [(360, 640), (640, 360), (900, 600), (1280, 600)], ids=["phone", "zoomed", "narrow", "wide"]
)
async def test_navigation_and_the_actions_on_selected_sessions_are_never_covered(
    browser: Browser, demo: OwnServer, width: int, height: int
) -> None:
    async with demo.client() as client:
        for number in range(20):
            await submit(client, "true", {"cpu": "1"}, name=f"held-{number}", held=True)
    async with signed_in(browser, demo, viewport={"width": width, "height": height}) as tab:
        page = await tab.open("/sessions")
        for link in await page.locator(".top nav a").all():
            assert await link.evaluate(UNCOVERED), await link.inner_text()
        await page.get_by_label("Select all").click()
        bar = page.get_by_role("group", name="Selected sessions")
        await expect(bar).to_contain_text("selected")
        await page.evaluate("scrollTo(0, document.querySelector('.queue tbody tr:nth-child(12)').offsetTop)")
        for button in await bar.get_by_role("button").all():
            assert await button.evaluate(UNCOVERED), await button.inner_text()


async def _left(found: Locator) -> float:
    box = await found.bounding_box()
    assert box is not None
    return box["x"]
