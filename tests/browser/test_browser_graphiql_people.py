"""GraphiQL's examples for users and viewers, not operators."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, expect

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from browser_graphiql import SHOWS, choose, execute
from browser_tab import signed_in
from e2e_sessions import session, submit

pytestmark = pytest.mark.anyio

MAKE: Final = """
mutation ($name: String!, $role: Role!) {
  create_user(input: { name: $name, role: $role }) { __typename }
  create_api_key(input: { user: $name, name: "tab" }) { ... on CreateApiKeySuccess { secret } }
}
"""
COUNT: Final = "query ($owner: String!) { sessions(filter: { owners: [$owner] }) { total_count } }"


@pytest.fixture(scope="module")
async def shared(anyio_backend: str, browser: Browser) -> AsyncIterator[OwnServer]:
    """The demo cluster, where several users may submit."""
    async with OwnServer("--demo", "--single-trust-domain") as server:
        async with server.client() as client:
            await until_joined(client, agents=2)
        yield server


async def test_an_example_uses_the_users_own_session_and_submits_only_one(browser: Browser, shared: OwnServer) -> None:
    async with shared.client() as client:
        others = await submit(client, "true", {"cpu": "1"}, held=True, name="for-an-example")
        key = await _key(client, "ute", "user")
        async with signed_in(browser, shared, key=key) as tab:
            page = await tab.open("/graphiql")
            await expect(page.locator(".graphiql-query-editor")).to_contain_text("hostname")
            await execute(page)
            await page.wait_for_function(SHOWS, arg='"hostname":"demo-1"')
            for _ in range(2):
                await choose(page, "Change a session", "cancel", "cancel_session")
                await choose(page, "Change a session", "hold", "hold_session")
                await _variables(page, "ses_")
                await execute(page)
                await expect(page.locator(".result-window")).to_contain_text("HoldSessionSuccess")
        assert await _count(client, "ute") == 1
        assert (await session(client, others))["state"] == "held"


async def test_an_example_run_by_a_viewer_submits_no_session(browser: Browser, shared: OwnServer) -> None:
    async with shared.client() as client:
        newest = await submit(client, "true", {"cpu": "1"}, held=True, name="looked-at")
        key = await _key(client, "vera", "viewer")
        async with signed_in(browser, shared, key=key) as tab:
            page = await tab.open("/graphiql")
            await expect(page.locator(".graphiql-query-editor")).to_contain_text("hostname")
            await choose(page, "Sessions", "session", "OneSession")
            await _variables(page, newest)
            await execute(page)
            await expect(page.locator(".result-window")).to_contain_text("looked-at")
            await choose(page, "Change a session", "hold", "hold_session")
            await _variables(page, "<waiting session>")
            await execute(page)
            await expect(page.locator(".result-window")).to_contain_text('"code"')
        assert await _count(client, "vera") == 0


async def _key(client: Client, name: str, role: str) -> str:
    made = await client.execute(MAKE, {"name": name, "role": role})
    return str(made["create_api_key"]["secret"])


async def _count(client: Client, owner: str) -> int:
    return int((await client.execute(COUNT, {"owner": owner}))["sessions"]["total_count"])


async def _variables(page: Page, text: str) -> None:
    await page.wait_for_function("text => localStorage.getItem('graphiql:variables')?.includes(text)", arg=text)
