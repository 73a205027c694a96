"""Edits on the Policy page survive a save by another user and visits to other pages."""

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


async def test_a_policy_draft_is_rebased_when_another_user_saves_the_policy(browser: Browser, demo: OwnServer) -> None:
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


async def test_a_draft_is_kept_over_other_pages_until_it_is_reset(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/admin?tab=policy")
        depth = page.get_by_label("Backfill depth")
        before = await depth.input_value()
        await depth.fill("47")
        await page.get_by_role("link", name="Usage").click()
        await page.get_by_role("heading", name="Usage", exact=True).wait_for()
        await client.change(CHANGE.replace("spread", "pack"), {})
        await page.go_back()
        await expect(depth).to_have_value("47")
        await expect(page.get_by_text("Someone else saved")).to_be_visible()
        await page.get_by_role("tab", name="Agents").click()
        await page.get_by_role("tab", name="Policy").click()
        await expect(depth).to_have_value("47")
        await page.get_by_role("button", name="Reset").click()
        await expect(depth).to_have_value(before)
        await page.reload()
        await expect(depth).to_have_value(before)
        await expect(page.get_by_role("button", name="No changes")).to_be_visible()
