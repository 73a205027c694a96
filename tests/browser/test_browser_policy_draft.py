"""What is typed on the policy page outlives what somebody else saves."""

from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in

pytestmark = pytest.mark.anyio

CHANGE: Final = """
mutation { update_policy(input: { placement: "spread" }) { __typename ... on Error { message } } }
"""
POLICY: Final = "{ policy { backfill_depth placement } }"


async def test_a_draft_is_kept_and_put_on_the_newer_version(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/admin?tab=policy")
        depth = page.get_by_label("Backfill depth")
        await depth.fill("43")
        await client.change(CHANGE, {})
        await expect(page.get_by_text("Someone else saved")).to_be_visible()
        await expect(depth).to_have_value("43")
        await expect(page.get_by_role("button", name="Review 1 change")).to_be_disabled()
        await page.get_by_role("button", name="Apply my changes to version").click()
        await expect(page.get_by_text("Someone else saved")).to_have_count(0)
        await page.get_by_role("button", name="Review 1 change").click()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("button", name="No changes")).to_be_visible()
        assert (await client.execute(POLICY))["policy"] == {"backfill_depth": 43, "placement": "spread"}
