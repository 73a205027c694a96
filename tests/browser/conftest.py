"""Debian's Chromium, and a real server with the demo cluster."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from aliquot.api.dashboard import BUILT
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from machine_lacks import node_with

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package")
async def playwright(anyio_backend: str) -> "AsyncIterator[Playwright]":
    from playwright.async_api import async_playwright, expect

    from browser_tab import CHROMIUM

    if CHROMIUM is None:
        pytest.skip("chromium is not installed; scripts/test installs it where it can")
    if not (BUILT / "index.html").is_file():
        node_with("vite")
        pytest.skip("the dashboard is not built: Node 20 or newer is not here")
    expect.set_options(timeout=30_000)
    async with async_playwright() as driver:
        yield driver


@pytest.fixture(scope="package")
async def browsers(playwright: "Playwright") -> "AsyncIterator[list[Browser]]":
    """The browser of the whole folder: to start one takes 0.6 s of CPU time. Each tab has its own context."""
    from browser_tab import launched

    started = [await launched(playwright)]
    yield started
    for one in started:
        await one.close()


@pytest.fixture(scope="module")
async def browser(playwright: "Playwright", browsers: "list[Browser]") -> "Browser":
    """The folder's browser, or a new one if that has crashed."""
    from browser_tab import launched

    if not browsers[-1].is_connected():
        browsers.append(await launched(playwright))
    return browsers[-1]


@pytest.fixture(scope="module")
async def demo(anyio_backend: str, browser: "Browser") -> AsyncIterator[OwnServer]:
    """Two mock nodes with eight H100 each; one server for all tests of a file."""
    async with OwnServer("--demo") as server:
        async with server.client() as client:
            await until_joined(client, agents=2)
        yield server
