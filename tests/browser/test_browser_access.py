"""Users and keys: created on the Admin page, used to sign in, and revoked."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Dialog, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in

pytestmark = pytest.mark.anyio

ADD_USER = """mutation { create_user(input: {name: "kim", role: user}) { __typename } }"""


@NEEDS_AXE
async def test_a_user_created_by_an_admin_signs_in_with_the_new_key(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=access")
        await expect(page.get_by_text("with the server's own token")).to_be_visible()
        await page.get_by_role("button", name="New user …").click()
        await page.get_by_label("Name").fill("vera")
        await page.get_by_role("button", name="Role").click()
        await page.get_by_role("option", name="viewer: read only").click()
        await page.get_by_role("button", name="Save").click()
        users = page.get_by_role("region", name="Users", exact=True)
        await expect(users.get_by_role("row", name="vera")).to_contain_text("viewer")

        await page.get_by_role("button", name="New key …").click()
        await page.get_by_label("User", exact=True).fill("vera")
        await page.get_by_label("Purpose").fill("laptop")
        await page.get_by_role("button", name="Create").click()
        shown = page.get_by_role("dialog").locator("pre")
        await expect(shown).to_be_visible()
        secret = await shown.inner_text()
        assert secret.startswith("key_")
        assert await tab.accessibility() == []
        await page.get_by_role("button", name="Close").click()

        context = await browser.new_context()
        veras = await context.new_page()
        await veras.goto(f"{demo.url}/login")
        await veras.get_by_label("Key").fill(secret)
        await veras.get_by_role("button", name="Sign in").click()
        await expect(veras).to_have_url(f"{demo.url}/")
        await veras.goto(f"{demo.url}/admin?tab=access")
        await expect(veras.get_by_text("You are signed in as vera, viewer.")).to_be_visible()
        await expect(veras.get_by_role("button", name="New user …")).to_have_count(0)
        keys = veras.get_by_role("region", name="Keys", exact=True)
        await expect(keys.get_by_role("row", name="laptop")).to_be_visible()

        all_keys = page.get_by_role("region", name="Keys", exact=True)
        await page.get_by_role("button", name="Disable vera").click()
        await page.get_by_role("button", name="Disable the user").click()
        await expect(all_keys.get_by_role("row", name="laptop")).to_contain_text("user disabled")
        await page.get_by_role("button", name="Enable vera").click()
        await expect(all_keys.get_by_role("row", name="laptop")).not_to_contain_text("user disabled")
        await page.get_by_role("button", name="Revoke laptop of vera").click()
        await expect(page.get_by_role("dialog")).to_contain_text("This cannot be undone.")
        await page.get_by_role("button", name="Keep it").click()
        await expect(all_keys).not_to_contain_text("revoked")
        await page.get_by_role("button", name="Revoke laptop of vera").click()
        await page.get_by_role("button", name="Revoke the key").click()
        await expect(all_keys).to_contain_text("revoked")
        answer = await veras.request.post(f"{demo.url}/graphql", data={"query": "{ me { name } }"})
        assert answer.status == 401
        await context.close()


async def test_a_new_key_is_copied_and_closed_by_its_button_only(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        async with demo.client() as client:
            await client.change(ADD_USER, {})
        page = await tab.open("/admin?tab=access")
        await page.get_by_role("button", name="New key …").click()
        await page.get_by_label("User", exact=True).fill("kim")
        await page.get_by_label("Purpose").fill("desktop")
        await page.get_by_role("button", name="Create").click()
        shown = page.get_by_role("dialog").locator("pre")
        secret = await shown.inner_text()
        await page.mouse.click(5, 5)
        await page.keyboard.press("Escape")
        await expect(shown).to_have_text(secret)
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_role("button", name="Copy the key").click()
        await expect(page.get_by_text("The key is on the clipboard.")).to_be_visible()
        assert await page.evaluate("navigator.clipboard.readText()") == secret
        await page.get_by_role("button", name="Close").click()
        await expect(shown).to_have_count(0)


async def test_a_double_click_creates_one_key(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        async with demo.client() as client:
            await client.change(ADD_USER.replace("kim", "ada"), {})
        page = await tab.open("/admin?tab=access")
        await page.get_by_role("button", name="New key …").click()
        await page.get_by_label("User", exact=True).fill("ada")
        await page.get_by_label("Purpose").fill("pressed twice")
        await page.get_by_role("button", name="Create").dblclick()
        await page.get_by_role("button", name="Copy the key").wait_for()
        await page.get_by_role("button", name="Close").click()
        await page.reload()
        await expect(page.get_by_role("cell", name="pressed twice", exact=True)).to_have_count(1)


async def test_a_new_key_is_not_lost_by_going_back_or_reloading(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        async with demo.client() as client:
            await client.change(ADD_USER.replace("kim", "lea"), {})
        await tab.open("/sessions")
        page = await tab.open("/admin?tab=access")
        await page.get_by_role("button", name="New key …").click()
        await page.get_by_label("User", exact=True).fill("lea")
        await page.get_by_label("Purpose").fill("desktop")
        await page.get_by_role("button", name="Create").click()
        shown = page.get_by_role("dialog").locator("pre")
        secret = await shown.inner_text()
        asked: list[str] = []
        page.on("dialog", lambda dialog: _stay(dialog, asked))
        await page.evaluate("location.reload()")
        await expect(shown).to_have_text(secret)
        assert asked == ["beforeunload"]
        await page.evaluate("history.pushState(null, '', '/usage')")
        await expect(page.get_by_role("heading", name="Usage", level=1)).to_be_attached()
        await page.go_back()
        await expect(shown).to_have_text(secret)
        await page.get_by_role("button", name="Close").click()
        await page.reload()
        await expect(page.get_by_role("cell", name="lea", exact=True).first).to_be_visible()
        assert asked == ["beforeunload"]


async def _stay(dialog: Dialog, asked: list[str]) -> None:
    asked.append(dialog.type)
    await dialog.dismiss()
