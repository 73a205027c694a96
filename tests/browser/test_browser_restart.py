"""The server restarts: the page says so, and reconnects by itself."""

from collections.abc import AsyncIterator

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Route, expect

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio


@pytest.fixture
async def mortal(anyio_backend: str, browser: Browser) -> AsyncIterator[OwnServer]:
    async with OwnServer("--demo") as server:
        async with server.client() as client:
            await until_joined(client, agents=2)
        yield server


async def test_pages_are_marked_stale_during_a_server_restart_and_resume_without_a_reload(
    browser: Browser, mortal: OwnServer
) -> None:
    gate = mortal.folder / "gate"
    script = f"echo before; while [ ! -e {gate} ]; do sleep 0.05; done; echo after; sleep 1000"
    async with signed_in(browser, mortal) as queue, signed_in(browser, mortal) as log, mortal.client() as client:
        runs = await submit(client, script, {"cuda.device": "1"}, name="survivor")
        await until_state(client, runs, "running")
        await queue.open("/queue")
        await log.open(f"/sessions/{runs}")
        await expect(log.page.get_by_role("log")).to_contain_text("before")
        for tab in (queue, log):
            await tab.page.wait_for_load_state("networkidle")  # a part loaded later would fail
            await tab.page.evaluate("window.isTheSamePage = true")
            tab.is_away_expected = True

        await mortal.kill()
        for tab in (queue, log):
            await expect(tab.page.locator(".connection.lost")).to_be_visible()
            await expect(tab.page.locator("main.stale")).to_be_visible()
        gate.touch()
        await mortal.start()

        for tab in (queue, log):
            await expect(tab.page.locator(".connection.lost")).to_be_hidden()
            await expect(tab.page.locator("main.stale")).to_have_count(0)
        await expect(log.page.get_by_role("log")).to_contain_text("after")
        await submit(client, "true", {"cuda.device": "8"}, cluster_size=2, name="newcomer")
        await expect(queue.page.get_by_role("link", name="newcomer")).to_be_visible()
        for tab in (queue, log):
            assert await tab.page.evaluate("window.isTheSamePage")


@pytest.mark.parametrize("name", ["Usage", "Calendar"])  # the second has a style sheet of its own, loaded before it
async def test_a_page_that_could_not_be_loaded_is_loaded_when_the_server_answers_again(
    browser: Browser, mortal: OwnServer, name: str
) -> None:
    async with signed_in(browser, mortal) as tab:
        await tab.open("/queue")
        await tab.page.wait_for_load_state("networkidle")
        tab.is_away_expected = True
        await mortal.kill()
        await tab.page.get_by_role("link", name=name).first.click()
        await expect(tab.page.get_by_text("It is loaded as soon as the server answers.")).to_be_visible()
        await mortal.start()
        await expect(tab.page.get_by_role("heading", name=name, level=1)).to_be_visible()


async def test_a_form_of_the_user_menu_that_cannot_be_loaded_leaves_the_page_as_it_is(
    browser: Browser, mortal: OwnServer
) -> None:
    async with signed_in(browser, mortal) as tab:
        await tab.open("/queue")
        await tab.page.wait_for_load_state("networkidle")
        tab.is_away_expected = True
        await mortal.kill()
        await tab.page.get_by_role("button", name="Account of").click()
        await tab.page.get_by_role("button", name="Notice settings …").click()
        await expect(tab.page.get_by_text("It is loaded as soon as the server answers.")).to_be_visible()
        await expect(tab.page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
        await mortal.start()
        await expect(tab.page.get_by_role("dialog", name="Notice settings")).to_be_visible()


async def test_a_tab_says_when_the_server_has_a_newer_dashboard_and_a_reload_keeps_what_was_typed(
    browser: Browser, mortal: OwnServer
) -> None:
    async def upgraded(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.text()).replace("/assets/dashboard-", "/assets/newer-"))

    async with signed_in(browser, mortal) as tab:
        page = await tab.open("/submit")
        bar, command = page.get_by_text("The server has a new version of this page."), page.get_by_label("Command")
        await command.fill("python train.py")
        await page.wait_for_load_state("networkidle")
        tab.is_away_expected = True
        for has_newer in (False, True):
            if has_newer:
                await page.route(mortal.url + "/", upgraded)
            await mortal.stop()
            await expect(page.locator(".connection.lost")).to_be_visible()
            async with page.expect_response(mortal.url + "/"):
                await mortal.start()
            await expect(page.locator(".connection.lost")).to_be_hidden()
            await expect(bar).to_have_count(int(has_newer))
        await page.get_by_role("button", name="Reload").click()
        await expect(bar).to_have_count(0)
        await expect(command).to_have_value("python train.py")
