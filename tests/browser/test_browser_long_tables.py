"""Tables longer than what is loaded at a time: every row can be reached, and the keyboard goes on at the new ones."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in

pytestmark = pytest.mark.anyio

MANY = """
mutation ($sessions: [CreateSessionInput!]!) {
  create_sessions(input: { sessions: $sessions }) { __typename ... on Error { code message } }
}
"""
QUOTA = 'mutation ($weight: Int) { set_quota(input: {scope: project, name: "x", weight: $weight}) { __typename } }'
COUNT = 2_150
BATCH = 1_000


async def test_every_one_of_thousands_of_sessions_can_be_reached(browser: Browser, demo: OwnServer) -> None:
    waits = {"command": {"shell": "true"}, "slots": [{"slot": "cuda.device", "amount": "1"}], "held": True}
    async with demo.client() as client:
        for first in range(0, COUNT, BATCH):
            names = range(first, min(first + BATCH, COUNT))
            await client.change(MANY, {"sessions": [{**waits, "name": f"many-{number}"} for number in names]})
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/queue?sort=newest")
        rows = page.locator(".queue tbody tr")
        count = page.locator(".row [role=status]").first
        await expect(count).to_have_text(f"100 of {COUNT}")
        more = page.get_by_role("button", name="Show more")
        await more.focus()
        await page.keyboard.press("Enter")
        await expect(rows).to_have_count(500)
        await expect(page.locator(".queue tbody tr:nth-child(101):focus-within")).to_have_count(1)
        await page.get_by_role("button", name="Load the first 2000").click()
        await expect(rows).to_have_count(2000)
        await expect(page.get_by_role("link", name="many-0", exact=True)).to_have_count(0)
        await page.get_by_role("button", name="Next 150").click()
        await expect(rows).to_have_count(150)
        await expect(count).to_have_text(f"2001 to {COUNT} of {COUNT}")
        await expect(page.get_by_role("link", name="many-0", exact=True)).to_be_visible()
        await expect(page.get_by_role("button", name="Next")).to_have_count(0)
        await page.get_by_role("button", name="Previous 2000").click()
        await expect(rows).to_have_count(2000)
        await page.goto(f"{demo.url}/queue?sort=newest&priority=normal")
        await expect(count).to_have_text(f"100 of {COUNT}")


async def test_show_more_of_the_audit_log_keeps_the_rows_and_the_focus(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        for weight in range(1, 76):
            await client.execute(QUOTA, {"weight": weight})
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=audit")
        rows = page.get_by_role("region", name="Past changes").locator("tbody tr")
        await expect(rows).to_have_count(50)
        await page.get_by_role("button", name="Show more").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody tr:nth-child(51):focus-within")).to_have_count(1)
        assert await rows.count() > 50
