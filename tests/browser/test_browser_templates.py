"""Templates of a project: saved in the submit form, and shown to a colleague."""

import re
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in

pytestmark = pytest.mark.anyio

ADD_USER: Final = "mutation ($input: CreateUserInput!) { create_user(input: $input) { __typename } }"
ADD_KEY: Final = """
mutation ($input: CreateApiKeyInput!) {
  create_api_key(input: $input) { __typename ... on CreateApiKeySuccess { secret } }
}
"""


@NEEDS_AXE
async def test_a_template_saved_by_a_user_is_available_to_members_of_the_project(
    browser: Browser, demo: OwnServer
) -> None:
    keys = []
    async with demo.client() as client:
        for name in ("tom", "tina"):
            await client.change(ADD_USER, {"input": {"name": name, "role": "user", "projects": ["sound"]}})
            asked = {"input": {"user": name, "name": "laptop", "scope": "submit"}}
            keys.append((await client.change(ADD_KEY, asked))["secret"])
    async with signed_in(browser, demo, key=keys[0]) as tab:
        page = await tab.open("/submit")
        await page.get_by_label("Command").fill("python train.py")
        await page.get_by_label("GPUs", exact=True).fill("2")
        await page.get_by_role("button", name=re.compile("Start from")).click()
        menu = page.get_by_role("dialog", name="Start from")
        await menu.get_by_label("Save the form as").fill("two GPUs")
        await menu.get_by_role("button", name="me, in every browser").click()
        await page.get_by_role("option", name="project sound").click()
        await menu.get_by_role("button", name="Save", exact=True).click()
        await expect(menu).to_contain_text("sound, by tom")
        assert await tab.accessibility("[role=dialog]") == []
    async with signed_in(browser, demo, key=keys[1]) as tab:
        page = await tab.open("/submit")
        await page.get_by_role("button", name=re.compile("Start from")).click()
        menu = page.get_by_role("dialog", name="Start from")
        await expect(menu.get_by_role("button", name="Delete the template two GPUs")).to_have_count(0)
        await menu.get_by_role("button", name="two GPUs").click()
        await expect(page.get_by_label("Command")).to_have_value("python train.py")
        await expect(page.get_by_label("GPUs", exact=True)).to_have_value("2")


async def test_the_newest_version_of_a_template_is_offered_on_a_page_left_open(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        await client.save_session_template("default", name="train", fields='{"command": "old"}')
        page = await tab.open("/submit")
        start = page.get_by_role("button", name=re.compile("Start from"))
        menu = page.get_by_role("dialog", name="Start from")
        await start.click()
        await expect(menu.get_by_role("button", name="train", exact=True)).to_be_visible()
        await menu.get_by_label("Save the form as").fill("train")
        await expect(menu.get_by_text("It replaces the template of this name.")).to_have_count(0)
        await menu.get_by_role("button", name="me, in every browser").click()
        await page.get_by_role("option", name="project default").click()
        await expect(menu.get_by_text("It replaces the template of this name.")).to_be_visible()
        await page.keyboard.press("Escape")
        await client.save_session_template("default", name="train", fields='{"command": "new"}')
        await client.save_session_template("default", name="written later", fields="{}")
        await start.click()
        await expect(menu.get_by_role("button", name="written later", exact=True)).to_be_visible()
        await menu.get_by_role("button", name="train", exact=True).click()
        await expect(page.get_by_label("Command")).to_have_value("new")
