"""A session's usage on its page; pages that do not exist link back."""

import re

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Route, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio

SOON = """mutation { set_notice_rule(input: { rule: gpu_idle, threshold: 2 }) { __typename } }"""

MOVED = """
new PerformanceObserver((list) => {
  for (const { sources } of list.getEntries()) {
    for (const { node, previousRect, currentRect } of sources) {
      if (!document.getElementById("content")?.contains(node)) continue;
      window.moved = [...(window.moved ?? []), `${node.textContent.slice(0, 30)}: ${currentRect.y - previousRect.y}`];
    }
  }
}).observe({ type: "layout-shift", buffered: true });
"""
"""Records layout shifts while the page loads."""


@NEEDS_AXE
async def test_the_session_page_shows_what_the_session_used(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        session = await submit(client, "true", {"cuda.shares": "0.5"}, name="short")
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{session}")
        use = page.get_by_role("region", name="What it used")
        await expect(use).to_contain_text("GPU-hours in all attempts")
        await expect(use).to_contain_text("Advice: It ran for less than 5 min, too short to judge.")
        await expect(use.get_by_role("row").nth(1)).to_contain_text("0.5")
        assert await tab.accessibility() == []


async def test_the_layout_of_the_session_page_does_not_shift_while_it_loads(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        session = await submit(client, "for i in $(seq 50); do echo $i; done; sleep 1000", {"cuda.device": "1"})
        await until_state(client, session, "running")
        async with signed_in(browser, demo, viewport={"width": 1440, "height": 3000}) as tab:
            await tab.page.add_init_script(MOVED)
            page = await tab.open(f"/sessions/{session}")
            await expect(page.get_by_role("region", name="What it used")).to_contain_text("Advice")
            assert await page.evaluate("window.moved ?? []") == []
        await client.change(CANCEL, {"id": session})


async def test_a_page_that_does_not_exist_links_to_the_dashboard(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        tab.is_away_expected = True  # the browser logs the 404
        page = await tab.open("/nowhere")
        await page.get_by_role("link", name="Back to the cluster").click()
        await expect(page).to_have_url(f"{demo.url}/")
        await tab.open("/sessions/ses_unknown")
        await page.get_by_role("link", name="Back to the sessions").click()
        await expect(page).to_have_url(f"{demo.url}/sessions")


@NEEDS_AXE
async def test_the_session_page_shows_cpu_and_memory_use_beside_the_granted_share(
    browser: Browser, demo: OwnServer
) -> None:
    async with demo.client() as client:
        burn = "while :; do :; done & sleep 1000"
        session = await submit(client, burn, {"cuda.shares": "0.5", "cpu": "2", "mem": "2g"}, name="burns")
        await until_state(client, session, "running")
        async with signed_in(browser, demo) as tab:
            page = await tab.open(f"/sessions/{session}")
            line = page.get_by_role("list", name="CPU and memory")
            text = re.compile(r"CPU \d\.\d of 2 \(at most \d\.\d\), memory [\d.]+ MiB of 2 GiB")
            await expect(line).to_contain_text(text, timeout=60_000)
            assert await tab.accessibility() == []
            await page.get_by_text("Wrap", exact=True).click()
            await page.context.grant_permissions(["notifications"])
            await page.get_by_role("button", name="Notify me").click()
            await expect(page.get_by_role("button", name="Do not notify me")).to_be_visible()
        await client.change(CANCEL, {"id": session})


@NEEDS_AXE
async def test_a_session_is_extended_and_idle_gpus_are_released_with_one_click(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        await client.change(SOON, {})
        name = await submit(client, "sleep 600", {"cuda.device": "1"}, name="notebook", time_limit=3600)
        await until_state(client, name, "running")
        page = await tab.open(f"/sessions/{name}")
        await page.get_by_label("Time to add").select_option("+2 h")
        await page.get_by_role("button", name="Extend").click()
        await expect(page.get_by_text("Its time limit is later now.")).to_be_visible()
        found = await client.session(name)
        assert found is not None
        assert found.time_limit == 3 * 3600

        async def idle() -> bool | None:
            known = await client.session(name)
            return True if known is not None and known.idle is not None else None

        await until(idle)
        await page.reload()
        notice = page.get_by_role("region", name="Unused GPUs")
        await expect(notice).to_contain_text("has not used it")
        assert await tab.accessibility() == []
        await notice.get_by_role("button", name="Give back").click()
        await expect(page.get_by_text("Given back.")).to_be_visible()
        await until_state(client, name, "canceled")
        await expect(notice).to_have_count(0)


async def test_a_refusal_names_the_session_with_a_link(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        session = await submit(client, "true", {"cpu": "1"}, name="late", held=True)

        async def canceled_before(route: Route) -> None:
            if "ReleaseSession" in (route.request.post_data or ""):
                await client.change(CANCEL, {"id": session})
            await route.continue_()

        page = await tab.open(f"/sessions/{session}")
        await page.route("**/graphql", canceled_before)
        await page.get_by_role("button", name="Release", exact=True).click()
        refusal = page.get_by_role("alert").filter(has_text="late")
        await expect(refusal.get_by_role("link", name="late")).to_have_attribute("href", f"/sessions/{session}")
        assert session not in await refusal.inner_text()
