"""A browser tab that records faults: errors on the page, and requests to other hosts."""

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Playwright, Request

from aliquot.cli.acceptance.processes import OwnServer

CHROMIUM: Final = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None
)
"""The first option saves a third of the CPU time of drawing."""
WAIT_MS: Final = 30_000
SOCKET: Final = re.compile(r"^ws://[^/]+/graphql$")
"""For subscriptions."""
AXE: Final = Path(__file__).parents[2] / "server" / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
AXE_RUN: Final = """
async (within) => {
  const found = await axe.run(within, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
}
"""
SETTLED: Final = """
() => new Promise((done) => {
  let quiet = setTimeout(done, 200);
  setTimeout(done, 5000);
  new PerformanceObserver(() => {
    clearTimeout(quiet);
    quiet = setTimeout(done, 200);
  }).observe({ type: "layout-shift" });
})
"""
"""The layout is stable for a while: a click on an element that moves is lost, as for a user."""
SEEN: Final = """
(state) => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""
"""Shows or hides the page, as when another tab is chosen."""
ADD_USER: Final = "mutation ($input: CreateUserInput!) { create_user(input: $input) { __typename } }"
ADD_KEY: Final = """
mutation ($input: CreateApiKeyInput!) {
  create_api_key(input: $input) { __typename ... on CreateApiKeySuccess { secret } }
}
"""
NOTHING_OPEN: Final = "!document.querySelector('[role=dialog], [role=menu], [role=listbox]')"
NEEDS_AXE: Final = pytest.mark.skipif(
    not AXE.is_file(), reason="axe-core is not installed; scripts/test installs it with Node"
)


@dataclass(kw_only=True)
class Tab:
    """A signed-in page, and the faults seen on it."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    is_away_expected: bool = False
    """Whether the server is stopped on purpose: the browser then logs network errors."""

    async def open(self, path: str) -> Page:
        """Go to a page of the dashboard."""
        await self.page.goto(self.url + path)
        await self.page.evaluate(SETTLED)
        return self.page

    async def accessibility(self, within: str = "html") -> list[str]:
        """axe violations of the page, or of the elements of a selector, as it is."""
        # Scroll up: axe finds a button too small that the sticky header covers.
        await self.page.evaluate(f"{NOTHING_OPEN} && scrollTo(0, 0)")
        await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: list[str] = await self.page.evaluate(AXE_RUN, within)
        return found

    def note_request(self, request: Request) -> None:
        """Record requests to foreign hosts."""
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(self.url).netloc:
            self.faults.append(f"foreign request: {request.url}")

    def note_console(self, message: ConsoleMessage) -> None:
        """Record errors."""
        about_network = any(words in message.text for words in ABOUT_NETWORK)
        if message.type in ("error", "warning") and not (self.is_away_expected and about_network):
            self.faults.append(f"console {message.type}: {message.text}")


ABOUT_NETWORK: Final = (
    "Failed to load resource",
    "WebSocket connection",
    "dynamically imported module",
    "Unable to preload CSS",
)
COUNT_CLICKS: Final = "addEventListener('click', (event) => { if (event.isTrusted) window.clicks++ }, true)"


@asynccontextmanager
async def counts_clicks(tab: Tab, *, most: int) -> AsyncIterator[None]:
    """Assert at most `most` clicks in the block, which stays on the dashboard's pages."""
    await tab.page.evaluate(f"window.clicks = 0; {COUNT_CLICKS}")
    yield
    clicks = await tab.page.evaluate("window.clicks")
    assert 1 <= clicks <= most, f"{clicks} clicks"


async def launched(playwright: Playwright) -> Browser:
    """Debian's Chromium, headless."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    return await playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)


@asynccontextmanager
async def signed_in(
    browser: Browser, server: OwnServer, *, key: str | None = None, **options: Any
) -> AsyncIterator[Tab]:
    """A new tab with its own cookies, signed in by a login code. Fails at the end on faults.

    Args:
        key: a user's key; by default the server's own token.
    """
    context = await browser.new_context(**options)
    context.set_default_timeout(WAIT_MS)
    tab = Tab(page=await context.new_page(), url=server.url)
    tab.page.on("request", tab.note_request)
    tab.page.on("console", tab.note_console)
    tab.page.on("pageerror", lambda error: tab.faults.append(f"page error: {error}"))
    try:
        authorization = {"authorization": f"Bearer {key or server.token}"}
        code = await context.request.post(f"{server.url}/login-code", headers=authorization)
        entered = await context.request.get(server.url + (await code.json())["path"], max_redirects=0)
        assert entered.status == 303, await entered.text()
        yield tab
    finally:
        await context.close()
    assert tab.faults == [], tab.faults
