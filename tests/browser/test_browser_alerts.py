"""Alerts: a rule is made stricter, its alert shows on every page, and receivers get the notice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import AXE, signed_in
from e2e_sessions import submit
from notices_receivers import HttpReceiver, http_receiver

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def hook(anyio_backend: str) -> AsyncIterator[HttpReceiver]:
    async with http_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
async def telling(
    browser: Browser, hook: HttpReceiver, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[OwnServer]:
    """The demo cluster, with a receiver of its alerts."""
    config = _config(tmp_path_factory.mktemp("alerts"), hook)
    async with OwnServer("--demo", environment={"ALIQUOT_CONFIG": str(config)}) as server:
        async with server.client() as client:
            await until_joined(client, agents=2)
        yield server


def _config(folder: Path, hook: HttpReceiver) -> Path:
    config = folder / "aliquot.toml"
    config.write_text(f'[[receivers]]\nname = "hook"\nkind = "webhook"\nurl = "{hook.url}"\ntells = ["alerts"]\n')
    return config


async def test_an_alert_of_an_edited_rule_is_shown_on_every_page_and_sent_to_receivers(
    browser: Browser, telling: OwnServer, hook: HttpReceiver
) -> None:
    async with signed_in(browser, telling) as tab, telling.client() as client:
        page = await tab.open("/admin?tab=alerts")
        await page.get_by_role("button", name="Send a test to hook").click()
        deliveries = page.get_by_role("region", name="Notifications", exact=True)
        await expect(deliveries.get_by_role("row", name="test")).to_contain_text("sent")

        await page.get_by_role("button", name="Change queue backlog").click()
        await page.get_by_label("Above, tasks").fill("0")
        await page.get_by_label("Must hold for").fill("soon")
        await expect(page.get_by_text("Enter a duration, like 90s, 15m, 2h30m or 1d12h.")).to_be_visible()
        await page.get_by_label("Must hold for").fill("0s")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("row", name="queue backlog")).to_contain_text("0 tasks")

        await submit(client, "true", {"cuda.device": "1"}, name="never", held=True)
        await submit(client, "true", {"cuda.device": "1"}, name="later", held=True)
        alerts = page.get_by_role("region", name="Alerts", exact=True)
        await expect(alerts.get_by_role("row", name="queue backlog")).to_contain_text("open")
        await expect(page.get_by_role("link", name="Cluster")).to_contain_text("1 open alerts")
        await expect(deliveries.get_by_role("row", name="queue backlog")).to_contain_text("sent")
        assert len(hook.notices()) >= 2, "the test, and the alert"
        if AXE.is_file():
            # axe ignores targets covered by the sticky header.
            await page.evaluate("scrollTo(0, 0)")
            assert await tab.accessibility() == []

        await page.get_by_role("button", name="Mute for 1 h: queue backlog").click()
        await expect(page.get_by_role("button", name="Unmute: queue backlog")).to_be_visible()
        await tab.open("/")
        await expect(page.get_by_role("region", name="Problems").locator(".wrong-warn")).to_be_visible()
