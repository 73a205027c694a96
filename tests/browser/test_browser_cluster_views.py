"""Views of the cluster: filters in the URL, the heat map, and device holders of the last day."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio


@NEEDS_AXE
async def test_cluster_filters_and_the_heat_map_select_devices(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/")
        tiles = page.locator(".tile")
        await expect(tiles).to_have_count(16)
        await expect(page.locator(".node header").first).to_contain_text("H100")
        await expect(tiles.first).not_to_contain_text("H100")
        await expect(tiles.first).to_contain_text("/80 GiB")
        await page.get_by_role("button", name="any node").click()
        await page.get_by_role("option", name="demo-2").click()
        await expect(tiles).to_have_count(8)
        await page.get_by_role("radio", name="Heat map").click()
        await expect(page).to_have_url(f"{demo.url}/?node=demo-2&view=heat")
        await expect(page.locator(".tile.cell")).to_have_count(8)
        assert await tab.accessibility() == []
        await page.reload()
        await expect(page.locator(".tile.cell")).to_have_count(8)
        await page.get_by_role("button", name="Show all").click()
        await expect(page.locator(".tile.cell")).to_have_count(16)


@NEEDS_AXE
async def test_the_history_view_shows_which_session_held_each_device(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        session_id = await submit(client, "sleep 4", {"cuda.device": "2"}, name="of-today")
        await until_state(client, session_id, "completed")
        page = await tab.open("/?view=history")
        bars = page.locator(".gantt-bar")
        await expect(bars).to_have_count(2)
        assert "of-today: 1 cuda.device" in (await bars.first.get_attribute("title") or "")
        assert await tab.accessibility() == []
        axis = await page.locator(".gantt-axis").bounding_box()
        assert axis is not None
        middle = axis["y"] + axis["height"] / 2
        await page.mouse.move(axis["x"] + axis["width"] * 0.9, middle)
        await page.mouse.down()
        await page.mouse.move(axis["x"] + axis["width"], middle, steps=4)
        await page.mouse.up()
        await expect(page.get_by_role("button", name="Zoom out")).to_be_visible()
        assert "from=" in page.url
        assert "to=" in page.url
        await page.go_back()
        await expect(page.get_by_role("button", name="Zoom out")).to_have_count(0)
