"""GraphiQL: its own build, a query and a subscription, and nothing from anywhere else."""

from contextlib import suppress

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.main_job.own_server import OwnServer
from browser_tab import signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

EVENTS_MAX = 10
IDLE = r"a11c0000-0001-4000-8000-000000000000\": \"0.00\""
"""The map is a JSON string in JSON; a device that nobody holds is in it."""


@pytest.mark.parametrize("address", ["/graphiql", "/graphql"])
async def test_the_first_query_answers(browser: Browser, demo: OwnServer, address: str) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open(address)
        await expect(page.locator(".graphiql-query-editor")).to_contain_text("gpu_alloc_map")
        await page.get_by_role("button", name="Execute query").click()
        await expect(page.locator(".result-window")).to_contain_text(IDLE)


async def test_a_subscription_tells_of_what_happens(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/graphiql")
        await expect(page.locator(".graphiql-query-editor")).to_contain_text("gpu_alloc_map")
        await page.get_by_role("tab", name="Events").click()
        await expect(page.locator(".graphiql-query-editor")).to_contain_text("queue_updates")
        # The editor reads what it shows a moment later, and keeps it then; who presses sooner runs the tab before.
        await page.wait_for_function("() => localStorage.getItem('graphiql:query')?.includes('queue_updates')")
        await page.get_by_role("button", name="Execute query").click()
        # It tells of what happens from now on, and nothing says when it is in place: events are made until one is told.
        for _ in range(EVENTS_MAX):
            await submit(client, "true", {"cuda.device": "1"}, name="for-the-editor")
            with suppress(AssertionError):
                await expect(page.locator(".result-window")).to_contain_text("for-the-editor", timeout=3_000)
                return
        pytest.fail("no event was told")


async def test_a_stranger_is_asked_for_the_token_first(browser: Browser, demo: OwnServer) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{demo.url}/graphiql")
    await page.get_by_label("Token").fill(demo.token)
    await page.keyboard.press("Enter")
    await expect(page.locator(".graphiql-query-editor")).to_contain_text("gpu_alloc_map")
    await context.close()
