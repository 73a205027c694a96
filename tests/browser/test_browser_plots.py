"""Plots: the period is in the URL, a drag zooms, the legend hides lines and shows values."""

import re

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio


@NEEDS_AXE
async def test_a_period_dragged_on_the_usage_plot_is_kept_in_the_url(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        ran = await submit(client, "sleep 1", {"cuda.device": "1"}, name="a-second")
        await until_state(client, ran, "completed")
        page = await tab.open("/usage")
        await page.get_by_role("radio", name="7 d").click()
        await expect(page).to_have_url(f"{demo.url}/usage?range=week")
        plot = page.get_by_role("figure", name="Ended sessions")
        # Loading elements above the plot would move it.
        await expect(page.get_by_role("region", name="Accuracy of forecasts")).to_be_visible()
        await plot.locator(".u-over").scroll_into_view_if_needed()
        box = await plot.locator(".u-over").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        await page.mouse.move(box["x"] + box["width"] * 0.5, middle)
        await expect(plot.locator(".plot-time")).not_to_be_empty()
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.9, middle, steps=5)
        await page.mouse.up()
        await expect(page).to_have_url(re.compile(r"from=.*&to="))
        assert await tab.accessibility() == []
        await page.go_back()
        await expect(page).to_have_url(f"{demo.url}/usage?range=week")
        await page.get_by_role("radio", name="By project").click()
        await expect(page).to_have_url(re.compile("by=project"))


async def test_many_devices_are_plotted_as_a_range_first_and_lines_can_be_hidden(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.device": "6"}, name="six")
        await until_state(client, runs, "running")
        page = await tab.open(f"/sessions/{runs}")
        plot = page.get_by_role("figure", name="Utilization, %")
        legend = plot.get_by_role("group")
        await expect(legend.get_by_role("button")).to_have_count(3)
        await legend.get_by_role("button", name="most").click()
        await expect(legend.get_by_role("button", name="most")).to_have_attribute("aria-pressed", "false")
        await plot.get_by_role("button", name="Show all 6").click()
        await expect(legend.get_by_role("button")).to_have_count(6)


async def test_a_period_between_two_times_keeps_an_hour_that_comes_twice(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, timezone_id="Europe/Berlin") as tab:
        page = await tab.open("/usage?from=2025-10-26T01:15:00Z&to=2025-10-26T02:30:00Z")
        await page.get_by_role("button", name="02:15 GMT+1").click()
        await expect(page.get_by_text("and the second is meant")).to_be_visible()
        await page.get_by_role("button", name="Show", exact=True).click()
        await expect(page).to_have_url(
            f"{demo.url}/usage?from=2025-10-26T01%3A15%3A00.000Z&to=2025-10-26T02%3A30%3A00.000Z"
        )
        await page.get_by_role("button", name="02:15 GMT+1").click()
        await page.get_by_label("From", exact=True).fill("2099-01-01T00:00")
        await page.get_by_label("To", exact=True).fill("2098-01-01T00:00")
        await expect(page.get_by_text("Enter a time before now.")).to_be_visible()
        await expect(page.get_by_text("It ends after it starts.")).to_be_visible()
        await expect(page.get_by_role("button", name="Show", exact=True)).to_be_disabled()
