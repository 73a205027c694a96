"""Secrets: stored, used, replaced and deleted in the browser, which keeps no value."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, Request, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import output_of, submit, until_state

pytestmark = pytest.mark.anyio

VALUE: Final = "hf_not-to-be-shown"
KEY: Final = "-----BEGIN KEY-----\nc2VjcmV0\n-----END KEY-----\n"
SIGN_UP: Final = """
mutation {
  create_user(input: { name: "iris", role: viewer }) { __typename }
  create_api_key(input: { user: "iris", name: "tab", scope: read }) { ... on CreateApiKeySuccess { secret } }
}
"""
KEPT: Final = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, document.body.innerText])"
PASTE: Final = """(text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text", text);
  document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


def carrying(value: str, found: list[str]) -> Callable[[Request], None]:
    """A listener that adds each request with the value in its address or body to `found`."""

    def note(request: Request) -> None:
        if value in request.url or value in (request.post_data or ""):
            found.append(f"{request.method} {request.url}")

    return note


async def stored(page: Page, name: str, value: str) -> None:
    await page.get_by_role("button", name="New secret …").click()
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Value").fill(value)
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_text(f"The secret {name} is stored.")).to_be_visible()


@NEEDS_AXE
async def test_a_secret_is_stored_for_the_form_and_its_value_stays_nowhere(browser: Browser, demo: OwnServer) -> None:
    sent: list[str] = []
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        page.on("request", carrying(VALUE, sent))
        await page.get_by_label("Command").fill("env | grep HUB_TOKEN")
        await page.get_by_role("button", name="Advanced").click()
        await page.get_by_label("Secrets", exact=True).fill("HUB_TOKEN")
        await expect(page.get_by_text("You have no secret HUB_TOKEN. Store it first")).to_be_visible()
        await page.get_by_role("link", name="Store a secret").click()
        await page.get_by_role("button", name="New secret …").click()
        value = page.get_by_label("Value")
        await expect(value).to_have_attribute("type", "password")
        await page.get_by_label("Name").fill("HUB_TOKEN")
        await value.fill(VALUE)
        assert await tab.accessibility() == []
        assert VALUE not in await page.evaluate(KEPT)
        await value.press("Enter")
        await expect(page.get_by_text("The secret HUB_TOKEN is stored.")).to_be_visible()
        assert await tab.accessibility() == []
        assert sent == [f"POST {demo.url}/graphql"]
        await page.go_back()  # the form was kept
        await expect(page.get_by_label("Secrets", exact=True)).to_have_value("HUB_TOKEN")
        await expect(page.get_by_text("You have no secret HUB_TOKEN.")).to_have_count(0)
        chip = page.get_by_role("button", name="HUB_TOKEN", exact=True)
        await expect(chip).to_have_attribute("aria-pressed", "true")
        await chip.click()
        await expect(page.get_by_label("Secrets", exact=True)).to_have_value("")
        assert VALUE not in await page.evaluate(KEPT)
        async with demo.client() as client:
            uses = [{"name": "HUB_TOKEN", "as_env": "HUB_TOKEN"}]
            asked = await submit(client, 'printf %s "$HUB_TOKEN"', {"cpu": "1"}, secrets=uses)
            await until_state(client, asked, "completed")
            assert await output_of(client, asked) == VALUE
        assert VALUE not in demo.log_tail()


async def test_a_secret_is_replaced_by_several_lines_and_deleted(
    browser: Browser, demo: OwnServer, tmp_path: Path
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=access")
        await stored(page, "DEPLOY.key", "first")
        rows = page.get_by_role("region", name="Secrets", exact=True).get_by_role("row")
        await rows.filter(has_text="DEPLOY.key").get_by_role("button", name="Replace DEPLOY.key").click()
        await page.get_by_label("Value").focus()
        await page.evaluate(PASTE, KEY)
        await expect(page.get_by_text("3 pasted lines")).to_be_visible()
        await page.get_by_role("button", name="Type it instead").click()
        (tmp_path / "key.pem").write_text(KEY)
        async with page.expect_request("**/graphql") as asked:
            await page.get_by_label("Or a text file").set_input_files(tmp_path / "key.pem")
            await page.get_by_role("button", name="Replace", exact=True).click()
            await expect(page.get_by_text("The secret DEPLOY.key has a new value.")).to_be_visible()
        assert (await asked.value).post_data_json["variables"] == {"name": "DEPLOY.key", "value": KEY}
        (tmp_path / "key.der").write_bytes(b"0\x82")
        await page.get_by_role("button", name="Replace DEPLOY.key").click()
        await page.get_by_label("Or a text file").set_input_files(tmp_path / "key.der")
        await expect(page.get_by_text("key.der is not UTF-8 text")).to_be_visible()
        await expect(page.get_by_role("button", name="Replace", exact=True)).to_be_disabled()
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_role("button", name="Delete DEPLOY.key").click()
        await page.get_by_role("button", name="Keep it").click()
        await expect(rows.filter(has_text="DEPLOY.key")).to_have_count(1)
        await page.get_by_role("button", name="Delete DEPLOY.key").click()
        await page.get_by_role("button", name="Delete the secret").click()
        await expect(page.get_by_text("The secret DEPLOY.key is deleted.")).to_be_visible()
        await expect(rows.filter(has_text="DEPLOY.key")).to_have_count(0)


async def test_a_viewer_reads_why_they_cannot_store_secrets(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        made = (await client.execute(SIGN_UP, {}))["create_api_key"]
    async with signed_in(browser, demo, key=made["secret"]) as tab:
        page = await tab.open("/admin?tab=access")
        await expect(page.get_by_text("which may read only")).to_be_visible()
        await expect(page.get_by_role("button", name="New secret …")).to_have_count(0)
