"""Signing in with an identity provider on another site: a real one from npm, in its own process."""

import re
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, WAIT_MS, Tab
from oidc_server import SECRET, provider

pytestmark = pytest.mark.anyio

PEOPLE: Final = {
    "ann": {"preferred_username": "ann", "groups": ["gpu-operators"]},
    "guest": {"preferred_username": "guest", "groups": []},
}
ME: Final = {"query": "{ me { name role } }"}
PAGE: Final = "/sessions?state=running"


async def sign_in_as(page: Page, name: str) -> None:
    """Fill in the provider's pages."""
    await page.locator("input[name=login]").fill(name)
    await page.locator("input[name=password]").fill("any")
    await page.locator("button[type=submit]").click()
    await page.get_by_role("button", name="Continue").click()


@NEEDS_AXE
async def test_a_person_signs_in_with_the_provider(browser: Browser, tmp_path: Path) -> None:
    secret = tmp_path / "client-secret"
    secret.write_text(SECRET)
    with provider(PEOPLE, host="localhost", browser_client="dashboard") as there:
        settings = {
            "ALIQUOT_OIDC_ISSUER": there.issuer,
            "ALIQUOT_OIDC_CLIENT_ID": "dashboard",
            "ALIQUOT_OIDC_CLIENT_SECRET_FILE": str(secret),
            "ALIQUOT_OIDC_USERS": "new",
            "ALIQUOT_OIDC_DEFAULT_ROLE": "nobody",
            "ALIQUOT_OIDC_ROLES": '{"gpu-operators": "operator"}',
        }
        async with OwnServer("--no-local-agents", environment=settings) as server:
            context = await browser.new_context()
            context.set_default_timeout(WAIT_MS)
            tab = Tab(page=await context.new_page(), url=server.url)
            page = await tab.open(PAGE)
            button = page.get_by_role("button", name=re.compile(r"Sign in with localhost:\d+"))
            await expect(button).to_be_visible()
            assert await tab.accessibility() == []
            await button.click()
            await sign_in_as(page, "ann")
            await expect(page).to_have_url(server.url + PAGE)
            await expect(page.get_by_role("button", name="Account of ann")).to_be_visible()
            answer = await page.request.post(f"{server.url}/graphql", data=ME)
            assert (await answer.json())["data"]["me"] == {"name": "ann", "role": "operator"}
            assert {cookie["name"] for cookie in await context.cookies(server.url)} == {"aliquot_session"}
            await context.close()

            context = await browser.new_context()
            context.set_default_timeout(WAIT_MS)
            page = await context.new_page()
            await page.goto(f"{server.url}/login")
            await page.get_by_role("link", name="Sign in with localhost").click()
            await sign_in_as(page, "guest")
            await expect(page.get_by_text("None of the token's groups is mapped to a role")).to_be_visible()
            await context.close()
