"""Filters of the queue: applied by the server, so that they also match rows not on the page."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import IN_ORDER
from browser_tab import signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

MANY = """
mutation ($sessions: [CreateSessionInput!]!) {
  create_sessions(input: { sessions: $sessions }) { __typename ... on Error { code message } }
}
"""
CREATED = """mutation { set_quota(input: {scope: project, name: "vision"}) { __typename ... on Error { message } } }"""
ROWS = 100
"""Of the first page."""


async def test_queue_filters_find_sessions_far_down_the_queue_and_ended_sessions(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        await client.change(IN_ORDER)
        await until_state(client, await submit(client, "true", {"cpu": "1"}, name="long-ago"), "completed")
        runs = await submit(client, "sleep 1000", {"cuda.device": "8"}, cluster_size=2, name="all-of-it")
        await until_state(client, runs, "running")
        waits = {"command": {"shell": "true"}, "slots": [{"slot": "cuda.device", "amount": "1"}]}
        await client.change(MANY, {"sessions": [{**waits, "name": f"many-{number}"} for number in range(ROWS)]})
        await client.change(CREATED)
        for name, more in (("deep-down", {"project": "vision"}), ("urgent", {"project": "vision", "held": True})):
            await submit(client, "true", {"cuda.device": "1"}, name=name, **more)

        page = await tab.open("/queue")
        search, count = page.get_by_role("searchbox"), page.locator(".row [role=status]").first
        rows = page.locator(".queue tbody tr")
        await expect(rows).to_have_count(ROWS)
        await expect(page.get_by_role("link", name="deep-down")).to_have_count(0)
        await page.get_by_role("button", name="Show more").click()
        await expect(page.get_by_role("link", name="deep-down")).to_be_visible()
        await page.get_by_role("radio", name="Ended").click()
        await page.get_by_role("radio", name="Waiting").click()
        await page.get_by_role("button", name="in queue order").click()
        await page.get_by_role("option", name="name, A to Z").click()
        await expect(page.get_by_role("link", name="urgent")).to_have_count(0)
        await expect(rows).to_have_count(ROWS)
        await page.get_by_role("button", name="Show more").click()
        await expect(rows).to_have_count(ROWS + 2)
        await page.get_by_role("radio", name="Running").click()
        await page.get_by_role("radio", name="Waiting").click()
        await search.fill("DEEP")
        await expect(page.get_by_role("link", name="deep-down")).to_be_visible()
        await expect(count).to_have_text("1 found")
        await search.fill("vision")
        await expect(rows).to_have_count(2)
        await search.fill("vision urgent")
        await expect(rows).to_have_count(1)
        await search.fill("many-")
        await expect(count).to_have_text(f"{ROWS} found")
        await page.get_by_role("radio", name="Ended").click()
        await expect(page.get_by_text("No session matches these filters")).to_be_visible()
        await search.fill("long-ago")
        await expect(page.get_by_role("link", name="long-ago")).to_be_visible()
        await page.get_by_role("radio", name="Running").click()
        await expect(page.get_by_text("No session matches these filters")).to_be_visible()
        await search.fill("")
        await expect(page.get_by_role("link", name="all-of-it")).to_be_visible()
