"""GraphiQL: our own build, its menu of examples, and no requests to other hosts."""

from contextlib import suppress

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_graphiql import SHOWS, choose, execute
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

EVENTS_MAX = 10
FIRST_NODE = '"hostname":"demo-1"'


@pytest.mark.parametrize("address", ["/graphiql", "/graphql"])
async def test_the_first_query_answers(browser: Browser, demo: OwnServer, address: str) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open(address)
        await expect(page.locator(".graphiql-query-editor")).to_contain_text("WhoHoldsWhat")
        await execute(page)
        await page.wait_for_function(SHOWS, arg=FIRST_NODE)


@pytest.mark.parametrize(
    ("group", "title", "field", "answer"),
    [
        ("Sessions", "find sessions", "gpus_desc", '"total_count"'),
        ("Change a session", "release", "release_session", "ReleaseSessionSuccess"),
        ("Change a session", "retry", "retry_session", "RetrySessionSuccess"),
        ("Manage agents", "label", "label_agent", "AgentChangeSuccess"),
        ("Live", "log", "session_logs", '"next_offset"'),
        ("Live", "devices live", "device_updates", '"gpu_alloc_map"'),
    ],
)
async def test_a_chosen_example_runs_with_its_variables_filled_in(
    browser: Browser, demo: OwnServer, group: str, title: str, field: str, answer: str
) -> None:
    """Its variables are filled in; a session that is missing is submitted."""
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/graphiql")
        await choose(page, group, title, field)
        await execute(page)
        await expect(page.locator(".result-window")).to_contain_text(answer)


@NEEDS_AXE
async def test_graphiql_is_accessible(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        for scheme in ("light", "dark"):
            await tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of its words
            page = await tab.open("/graphiql")
            await expect(page.get_by_role("link", name="Aliquot", exact=True)).to_be_visible()
            await expect(page.locator(".examples")).to_be_visible()
            await page.get_by_role("button", name="New tab").click()
            await expect(page.locator(".graphiql-tab-button[aria-current=true]")).to_have_count(1)
            assert await tab.accessibility() == []


async def test_an_edited_query_keeps_its_tab_when_an_example_is_chosen(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/graphiql")
        tabs = page.locator(".graphiql-tab")
        await choose(page, "Cluster", "doctor", "differences")
        await expect(tabs).to_have_count(1)
        await page.locator(".graphiql-query-editor .view-lines").click()
        await page.keyboard.type("# mine ")
        await expect(page.locator(".graphiql-query-editor")).to_contain_text("# mine")
        await choose(page, "Cluster", "me", "unix_name")
        await expect(tabs).to_have_count(2)


async def test_a_subscription_shows_events(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/graphiql")
        await choose(page, "Live", "queue live", "queue_updates")
        await execute(page)
        # The subscription sends only new events, and its start is not visible: submit until one arrives.
        for _ in range(EVENTS_MAX):
            await submit(client, "true", {"cuda.device": "1"}, name="for-the-editor")
            with suppress(AssertionError):
                await expect(page.locator(".result-window")).to_contain_text("for-the-editor", timeout=3_000)
                return
        pytest.fail("no event was told")


async def test_graphiql_asks_an_unauthenticated_visitor_for_the_token(browser: Browser, demo: OwnServer) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{demo.url}/graphiql")
    await page.get_by_label("Token").fill(demo.token)
    await page.keyboard.press("Enter")
    await expect(page.locator(".graphiql-query-editor")).to_contain_text("WhoHoldsWhat")
    await context.close()
