"""The live demo in the browser, and its screenshots in the documentation.

`ALIQUOT_PICTURES=1 scripts/test tests/browser/test_browser_pictures.py` retakes the pictures. Every run opens the
same pages, checks that they show what the text beside the pictures says, and that each picture exists in its size.
"""

import io
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from PIL import Image
from playwright.async_api import Browser, Page, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until

pytestmark = pytest.mark.anyio

DOCS: Final = Path(__file__).parents[2] / "server" / "docs"
WIDTH: Final = 1280
COLOURS: Final = 128
"""Colours of the palette; this makes files a third as large."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A page as shown in the documentation."""

    file: str
    path: str
    height: int
    is_shown: Callable[[Page], Awaitable[None]]
    """Waits until the page matches the text."""


async def _cluster(page: Page) -> None:
    await expect(page.locator(".tile")).to_have_count(16)
    await expect(page.locator(".demo")).to_contain_text("Demo")
    await expect(page.get_by_role("region", name="Waiting")).to_contain_text("mine")


async def _history(page: Page) -> None:
    await expect(page.locator(".gantt-bar").nth(30)).to_be_attached()


async def _sessions(page: Page) -> None:
    await expect(page.locator("main")).to_contain_text("mine")


async def _waiting(page: Page) -> None:
    await expect(page.locator("main")).to_contain_text("8 GPUs")


async def _usage(page: Page) -> None:
    for name in ("mia", "jonas", "priya", "tomas", "lena"):
        await expect(page.locator("main")).to_contain_text(name)
    await expect(page.locator("main canvas").first).to_be_visible()


async def _busy(client: Client) -> bool:
    """Whether the load is so high that a session of eight GPUs has to wait."""
    found = await client.execute("{ cluster { allocated_gpus } queue(first: 5) { total_count } }")
    return bool(found["cluster"]["allocated_gpus"] > 10 and found["queue"]["total_count"])


@pytest.fixture(scope="module")
async def living(anyio_backend: str, browser: Browser) -> AsyncIterator[tuple[OwnServer, tuple[Picture, ...]]]:
    async with OwnServer("--demo-live") as server, server.client() as client:
        await until(partial(_busy, client))
        waits = await submit(client, "sleep 60", {"cuda.device": "8"}, name="mine", time_limit=3600.0)
        pictures = (
            Picture(file="dashboard.png", path="/", height=800, is_shown=_cluster),
            Picture(file="pictures/history.png", path="/?view=history", height=640, is_shown=_history),
            Picture(file="pictures/sessions.png", path="/sessions", height=720, is_shown=_sessions),
            Picture(file="pictures/waiting.png", path=f"/sessions/{waits}", height=720, is_shown=_waiting),
            Picture(file="pictures/usage.png", path="/usage?range=week", height=900, is_shown=_usage),
        )
        yield server, pictures


@NEEDS_AXE
async def test_pages_of_the_living_demo_show_content_and_are_accessible(
    browser: Browser, living: tuple[OwnServer, tuple[Picture, ...]]
) -> None:
    server, pictures = living
    async with signed_in(browser, server, viewport={"width": WIDTH, "height": 800}) as tab:
        for picture in pictures:
            await tab.page.set_viewport_size({"width": WIDTH, "height": picture.height})
            page = await tab.open(picture.path)
            await picture.is_shown(page)
            assert await tab.accessibility() == [], picture.path
            if os.environ.get("ALIQUOT_PICTURES"):
                await _take(page, DOCS / picture.file)


async def _take(page: Page, file: Path) -> None:
    if file.name == "dashboard.png":
        await expect(page.locator(".tile", has_text="notebook")).to_contain_text("0 %")
        # A GPU that has been held unused for a minute counts as idle.
        await expect(page.get_by_text("held, utilization < 5 %").locator("..")).to_contain_text("1", timeout=90_000)
    await page.wait_for_timeout(4_000)  # a few live readings
    taken = Image.open(io.BytesIO(await page.screenshot()))
    taken.convert("RGB").quantize(COLOURS).save(file, optimize=True)


async def test_the_documentation_has_these_pictures(living: tuple[OwnServer, tuple[Picture, ...]]) -> None:
    _, pictures = living
    for picture in pictures:
        with Image.open(DOCS / picture.file) as found:
            assert found.size == (WIDTH, picture.height), picture.file
    assert {f"pictures/{path.name}" for path in (DOCS / "pictures").iterdir()} == {
        picture.file for picture in pictures if picture.file.startswith("pictures/")
    }
