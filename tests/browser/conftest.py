"""Debian's Chromium, and a real server with the demo cluster."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from aliquot.api.dashboard import BUILT
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from machine_lacks import node_with

if TYPE_CHECKING:
    from playwright.async_api import Browser


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> "AsyncIterator[Browser]":
    from playwright.async_api import async_playwright, expect

    from browser_tab import CHROMIUM, launched

    if CHROMIUM is None:
        pytest.skip("chromium is not installed; scripts/test installs it where it can")
    if not (BUILT / "index.html").is_file():
        node_with("vite")
        pytest.skip("the dashboard is not built: Node 20 or newer is not here")
    expect.set_options(timeout=30_000)
    async with async_playwright() as playwright:
        chromium = await launched(playwright)
        yield chromium
        await chromium.close()


@pytest.fixture(scope="module")
async def demo(anyio_backend: str, browser: "Browser") -> AsyncIterator[OwnServer]:
    """Two mock nodes with eight H100 each; one server for all tests of a file."""
    async with OwnServer("--demo") as server:
        async with server.client() as client:
            await until_joined(client, agents=2)
        yield server
