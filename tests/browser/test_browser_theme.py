"""Plots and drawings follow the theme, set by the button and by the system."""

from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from browser_tab import signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

DRAWN_IN: Final = """
(scheme) => {
  const plots = [...document.querySelectorAll(".plot")].filter((plot) => plot.querySelector("canvas"));
  const grid = (plot) => getComputedStyle(plot).borderColor.match(/\\d+/g).map(Number);
  const has = (plot, [red, green, blue]) => {
    const drawn = plot.querySelector("canvas");
    const copy = new OffscreenCanvas(drawn.width, drawn.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(drawn, 0, 0);
    const { data } = copy.getImageData(0, 0, drawn.width, drawn.height);
    for (let at = 0; at < data.length; at += 4)
      if (data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255) return true;
    return false;
  };
  const fits = (plot) => (grid(plot)[0] > 128) === (scheme === "light") && has(plot, grid(plot));
  return plots.length > 0 && plots.every(fits);
}
"""
"""Whether the grid lines of all plots have the colour of the current theme."""


async def test_the_theme_of_one_tab_is_applied_in_another(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, color_scheme="light") as tab:
        page = await tab.open("/")
        other = await page.context.new_page()
        await other.goto(f"{demo.url}/sessions")
        await other.get_by_role("heading", name="Sessions").wait_for()
        await page.get_by_role("button", name="Account of").click()
        await page.get_by_role("radio", name="Dark").click()
        await expect(other.locator("html")).to_have_attribute("data-theme", "dark")


async def test_plots_are_redrawn_when_the_theme_changes(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, color_scheme="light") as tab:
        page = await tab.open("/usage")
        await page.wait_for_function(DRAWN_IN, arg="light")
        await page.get_by_role("button", name="Account of").click()
        await page.get_by_role("radio", name="Dark").click()
        await page.wait_for_function(DRAWN_IN, arg="dark")
        await page.get_by_role("radio", name="System").click()
        await page.wait_for_function(DRAWN_IN, arg="light")
        await page.emulate_media(color_scheme="dark")
        await page.wait_for_function(DRAWN_IN, arg="dark")


async def test_the_dark_theme_is_printed_dark_on_light(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, color_scheme="light") as tab:
        page = await tab.open("/sessions")
        await page.get_by_role("button", name="Account of").click()
        await page.get_by_role("radio", name="Dark").click()
        text = await page.evaluate("getComputedStyle(document.body).color")
        await page.emulate_media(media="print")
        await page.wait_for_function("(text) => getComputedStyle(document.body).color !== text", arg=text)


async def test_nothing_is_cut_off_on_paper(browser: Browser, demo: OwnServer) -> None:
    cut = "(part) => getComputedStyle(part).overflow !== 'visible' && part.scrollHeight > part.clientHeight + 1"
    async with signed_in(browser, demo, viewport={"width": 700, "height": 900}) as tab, demo.client() as client:
        session = await submit(client, "sleep 1000", {"cuda.shares": "0.1"}, name="printed")
        page = await tab.open("/sessions?state=running")
        await expect(page.get_by_role("link", name="printed")).to_be_visible()
        await page.emulate_media(media="print")
        await expect(page.get_by_role("region", name="Running sessions")).to_have_css("overflow", "visible")
        long = await submit(client, "sleep 1000; " + "true; " * 400, {"cuda.shares": "0.1"}, name="long")
        await page.goto(f"{demo.url}/sessions/{long}")
        assert await page.locator(".command").evaluate(cut) is False
        for id in (session, long):
            await client.change(CANCEL, {"id": id})
