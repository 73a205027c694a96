"""The what-if page, and the comparison of starts in the submit form."""

import re

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

CREATE_PROJECT = """mutation { set_quota(input: {scope: project, name: "vision"}) { __typename } }"""


@NEEDS_AXE
async def test_what_if_questions_are_answered_and_kept_in_the_url(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        await submit(client, "sleep 1000", {"cuda.device": "8"}, cluster_size=2, name="all-of-them")
        await submit(client, "true", {"cuda.device": "1"}, name="next-one")
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/")
        await page.get_by_role("link", name="What if").click()
        await expect(page.get_by_text("Fill in at least one of the parts.")).to_be_visible()
        assert await tab.accessibility() == []
        await page.get_by_label("GPUs", exact=True).fill("2")
        session = page.get_by_role("region", name="The session")
        await expect(session).to_contain_text("It would wait, at position")
        await expect(session.get_by_role("link", name="all-of-them").first).to_be_visible()
        await expect(page).to_have_url(f"{demo.url}/what-if?gpus=2")

        await page.get_by_label("How many").fill("1")
        await page.get_by_label("Like this one").click()
        await page.get_by_role("option").nth(1).click()
        await expect(page.get_by_role("region", name="Would start now")).to_contain_text("next-one")
        await expect(session).to_contain_text(re.compile(r"It would start immediately, on .*\+1: cuda"))

        address = page.url
        await page.get_by_label("Changes of the policy").fill("order=alphabet")
        await expect(page.get_by_text("order is one of fair_share")).to_be_visible()
        await expect(page.get_by_text("Correct the marked fields.")).to_be_visible()
        await page.goto(address)
        await expect(page.get_by_role("region", name="Would start now")).to_contain_text("next-one")
        assert await tab.accessibility() == []
        await page.get_by_role("button", name="Clear").click()
        await expect(page).to_have_url(f"{demo.url}/what-if")


async def test_operators_choose_among_all_projects(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        await client.change(CREATE_PROJECT, {})
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/what-if")
        await page.get_by_label("Project", exact=True).click()
        await expect(page.get_by_role("option", name="vision")).to_be_visible()


@NEEDS_AXE
async def test_the_submit_form_compares_the_start_times_of_several_gpu_counts(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.get_by_label("Command").fill("true")
        parts = page.get_by_role("region", name="When it would start")
        for count in ("1 GPU", "2 GPUs", "4 GPUs", "8 GPUs"):
            start = parts.locator(".start").filter(has_text=count)
            await expect(start.locator("b")).not_to_have_text("…")
        assert await tab.accessibility() == []
        await parts.get_by_role("button", name="Choose 4 GPUs").click()
        await expect(page.get_by_label("GPUs", exact=True)).to_have_value("4")
