"""Pages for a viewer and for an ordinary user, and wide tables on a narrow screen."""

import re
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

ADD_USER: Final = "mutation ($input: CreateUserInput!) { create_user(input: $input) { __typename } }"
ADD_KEY: Final = """
mutation ($input: CreateApiKeyInput!) {
  create_api_key(input: $input) { __typename ... on CreateApiKeySuccess { secret } }
}
"""
PHONE: Final = {"width": 390, "height": 844}
ROW_PX_MAX: Final = 160
"""A table row higher than this has a column squeezed to one word per line."""
HIGHEST_ROW: Final = "() => Math.max(...[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight))"


async def key_of(server: OwnServer, name: str, role: str, projects: tuple[str, ...] = ()) -> str:
    async with server.client() as client:
        await client.change(ADD_USER, {"input": {"name": name, "role": role, "projects": list(projects)}})
        made = await client.change(ADD_KEY, {"input": {"user": name, "name": "browser", "scope": "submit"}})
    return str(made["secret"])


async def test_a_viewer_asks_what_a_change_of_the_cluster_would_mean(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, key=await key_of(demo, "vito", "viewer")) as tab:
        page = await tab.open("/")
        await page.get_by_role("link", name="What if").click()
        await page.get_by_label("Agent").click()
        await page.get_by_role("option").nth(1).click()
        await expect(page.get_by_text(re.compile(r"would start (now|later|sooner)")).first).to_be_visible()
        await expect(page.get_by_label("GPUs", exact=True)).to_have_count(0)


@NEEDS_AXE
async def test_a_viewer_sees_why_output_and_history_are_hidden(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        silent = await submit(client, "true", {"cpu": "1"}, name="silent")
        await until_state(client, silent, "completed")
    async with signed_in(browser, demo, key=await key_of(demo, "vera", "viewer")) as tab:
        page = await tab.open(f"/sessions/{silent}")
        log = page.get_by_role("region", name="Log")
        await expect(log).to_contain_text("only its owner and admins may read its output")
        await expect(log.get_by_role("log")).to_have_count(0)
        await expect(log.get_by_role("button", name="Download")).to_have_count(0)
        await expect(page.get_by_text("only members of its project may read its history")).to_have_count(1)
        assert await tab.accessibility() == []
        await tab.open("/calendar")
        await expect(page.get_by_text("Click one for details.")).to_be_visible()
        await expect(page.get_by_text("Drag over free time")).to_have_count(0)


async def test_a_session_with_a_hidden_command_has_no_submit_again_link(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        hidden = await submit(client, "true", {"cpu": "1"}, name="hidden")
        await until_state(client, hidden, "completed")
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{hidden}")
        await expect(page.get_by_role("link", name="Submit again")).to_be_visible()
    async with signed_in(browser, demo, key=await key_of(demo, "sam", "user")) as tab:
        page = await tab.open(f"/sessions/{hidden}")
        await expect(page.get_by_text("may see the command")).to_be_visible()
        await expect(page.get_by_role("link", name="Submit again")).to_have_count(0)


async def test_an_ended_session_without_output_says_so(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        silent = await submit(client, "true", {"cpu": "1"})
        await until_state(client, silent, "completed")
        page = await tab.open(f"/sessions/{silent}")
        await expect(page.get_by_role("region", name="Log")).to_contain_text("Nothing was printed.")


async def test_a_session_without_gpus_has_no_empty_plots(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        counts = await submit(client, "for i in 1 2 3 4; do echo $i; sleep 1; done", {"cpu": "1"})
        await until_state(client, counts, "completed")
        page = await tab.open(f"/sessions/{counts}")
        await expect(page.get_by_role("log", name="Output")).to_contain_text("4")
        await expect(page.get_by_role("region", name="What it used")).to_be_visible()
        await expect(page.get_by_role("region", name="Readings")).to_have_count(0)


async def test_the_form_shows_the_project_that_is_charged(browser: Browser, demo: OwnServer) -> None:
    key = await key_of(demo, "rob", "user", ("robots",))
    async with signed_in(browser, demo, key=key) as tab:
        page = await tab.open("/submit")
        await expect(page.get_by_role("button", name="Project")).to_contain_text("robots")
        await page.get_by_label("Command").fill("true")
        await page.get_by_role("button", name="Submit", exact=True).click()
        await expect(page.get_by_role("region", name="Request")).to_contain_text("robots")


async def test_rows_of_wide_tables_stay_low_on_a_narrow_screen(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, viewport=PHONE) as tab:
        page = await tab.open("/admin")
        await page.get_by_role("region", name="Agents").get_by_role("row").nth(2).wait_for()
        assert await page.evaluate(HIGHEST_ROW) <= ROW_PX_MAX
        await tab.open("/admin?tab=audit")
        await page.get_by_role("region", name="Past changes").get_by_role("row").nth(2).wait_for()
        assert await page.evaluate(HIGHEST_ROW) <= ROW_PX_MAX


async def test_an_open_pane_of_graphiql_covers_a_narrow_screen(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, viewport=PHONE) as tab:
        page = await tab.open("/graphiql")
        run = page.get_by_role("button", name="Execute query")
        await expect(run).to_be_visible()
        panes = page.get_by_role("button", name="Documentation Explorer")
        await panes.click()
        pane = page.locator(".graphiql-plugin")
        await expect(run).to_be_hidden()
        box = await pane.bounding_box()
        assert box is not None
        assert box["width"] >= PHONE["width"] - 40
        await panes.click()
        await expect(run).to_be_visible()
