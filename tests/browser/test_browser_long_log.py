"""A long log: the page keeps and draws a part of it; the download is complete, also after a cut connection.

How long the page was blocked is printed but not asserted, as it depends on the machine too.
"""

import re
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

LINES: Final = 1_000_000
WIDE: Final = 300_000
"""Characters of an extremely long line."""
SCRIPT: Final = f"""awk 'BEGIN {{
  for (i = 1; i <= {LINES}; i++) printf "line %07d of it\\n", i
  for (i = 1; i <= {WIDE}; i++) printf "w"
  print "\\nthe end"
}}'"""
ROWS_DRAWN_MAX: Final = 200
ROW_CHARACTERS_MAX: Final = 2_000
HEAP_BYTES_MAX: Final = 96 * 2**20
CUT_AFTER: Final = 60
"""Messages on a download's first socket."""
CUT: Final = f"""
window.sockets = null;
window.WebSocket = class extends WebSocket {{
  constructor(...address) {{
    super(...address);
    if (window.sockets === null || window.sockets++ > 0) return;
    let heard = 0;
    this.addEventListener("message", () => ++heard === {CUT_AFTER} && this.close(4000));
  }}
}};
"""
"""Counts sockets once the count is set to 0, and cuts off the first of them."""
WATCH: Final = """
window.busy = [];
new PerformanceObserver((list) => busy.push(...list.getEntries().map(({ duration }) => Math.round(duration))))
  .observe({ type: "longtask", buffered: true });
"""
WIDTHS: Final = "() => [...document.querySelectorAll('.log-text')].map(({ textContent }) => textContent.length)"


async def test_a_log_of_a_million_lines_is_followed_searched_and_downloaded(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        await tab.page.add_init_script(WATCH)
        await tab.page.add_init_script(CUT)
        page = await tab.open(f"/sessions/{await submit(client, SCRIPT, {'cuda.shares': '0.1'}, name='long')}")
        log, panel = page.get_by_role("log"), page.get_by_role("region", name="Log", exact=True)
        await expect(panel.get_by_text("ended · 18.4 MiB")).to_be_visible()
        await expect(log).to_contain_text("the end")
        assert max(await page.evaluate(WIDTHS)) == ROW_CHARACTERS_MAX
        assert await log.locator(".log-line").count() < ROWS_DRAWN_MAX
        await expect(panel.get_by_text(re.compile(r"The first 9\d{5} lines are no longer kept here"))).to_be_visible()
        assert await _heap_bytes(page) < HEAP_BYTES_MAX
        print("busy while it came, ms:", await page.evaluate("busy.splice(0)"))

        search = panel.get_by_role("searchbox", name="Search the log")
        await search.fill("line 0999")
        await expect(panel.get_by_text("1000 lines", exact=True)).to_be_visible()
        await search.fill("LINE 0950000")
        await expect(panel.get_by_text("1 line", exact=True)).to_be_visible()
        await search.press("Enter")
        await expect(log.locator(".log-line.at")).to_contain_text("line 0950000 of it")
        assert await log.locator(".log-line").count() < ROWS_DRAWN_MAX
        print("busy with a search, ms:", await page.evaluate("busy.splice(0)"))

        await page.evaluate("sockets = 0")
        async with page.expect_download() as downloading:
            await panel.get_by_role("button", name="Download").click()
        found = _text(await (await downloading.value).path())
        assert await page.evaluate("sockets") == 2
        wanted = [*(f"line {number:07} of it" for number in range(1, LINES + 1)), "w" * WIDE, "the end"]
        assert found.splitlines() == wanted
        print("busy with the download, ms:", await page.evaluate("busy.splice(0)"))


async def _heap_bytes(page: Page) -> float:
    """Its JavaScript heap."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("HeapProfiler.collectGarbage")
    usage = await devtools.send("Runtime.getHeapUsage")
    await devtools.detach()
    return float(usage["usedSize"])


def _text(path: Path) -> str:
    return path.read_text()
