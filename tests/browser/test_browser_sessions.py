"""A session: submitted by keyboard, its log followed, searched and downloaded, and canceled."""

import re
from pathlib import Path

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from aliquot.client import Client
from browser_tab import signed_in
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio

MEASURED = "query ($id: ID!) { session_history(id: $id) { series { values } } }"
SESSION = re.compile(r"/sessions/(ses_[0-9a-f-]+)")


async def test_a_session_is_submitted_and_canceled_with_the_keyboard_alone(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.get_by_label("Command").focus()
        await page.keyboard.type("echo started; sleep 1000")
        await page.keyboard.press("Tab")
        await page.keyboard.type("by-hand")
        await page.get_by_label("GPUs", exact=True).focus()
        await page.keyboard.press("Control+a")
        await page.keyboard.type("99")
        await expect(page.get_by_text("It would be refused")).to_be_visible()
        await page.keyboard.press("Control+a")
        await page.keyboard.type("1.555")
        await expect(page.get_by_text("Enter a multiple of 0.01.")).to_be_visible()
        await page.keyboard.press("Control+a")
        await page.keyboard.type("2")
        await expect(page.get_by_text("It would start immediately, on demo-")).to_be_visible()
        await page.get_by_role("button", name="Submit").focus()
        await page.keyboard.press("Enter")

        await expect(page).to_have_url(SESSION)
        await expect(page.get_by_role("heading", name="by-hand")).to_be_visible()
        await expect(page.locator("header .badge", has_text="running")).to_be_visible()
        await expect(page.get_by_role("log")).to_contain_text("started")

        await page.get_by_role("button", name="Cancel by-hand").focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Cancel the session").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("header .badge", has_text="canceled")).to_be_visible()
        async with demo.client() as client:
            assert (await until_state(client, _id(page), "canceled"))["state"] == "canceled"


async def test_a_refusal_by_the_server_is_shown_in_the_submit_form(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.get_by_label("Command").fill("true")
        await page.get_by_role("button", name="Advanced").click()
        await page.get_by_label("Checkpoint signal").fill("SIGNOTHING")
        await page.get_by_role("button", name="Submit").click()
        await expect(page.locator(".note.bad")).to_be_visible()
        await expect(page).to_have_url(re.compile("/submit$"))


async def test_a_log_is_followed_searched_and_downloaded(browser: Browser, demo: OwnServer) -> None:
    gate = demo.folder / "gate"
    script = (
        "for i in $(seq 1 3000); do echo line $i; done; printf '\\033[31mred\\033[0m alert\\n'; "
        f"while [ ! -e {gate} ]; do sleep 0.05; done; echo after the gate"
    )
    async with signed_in(browser, demo) as tab, demo.client() as client:
        session_id = await submit(client, script, {"cuda.shares": "0.1"}, name="talker")
        page = await tab.open(f"/sessions/{session_id}")
        log = page.get_by_role("log")
        await expect(log).to_contain_text("red alert")
        await expect(log.locator(".ansi-red")).to_have_text("red")
        assert await log.locator(".log-line").count() < 200, "a long log is drawn in part"

        gate.touch()
        await expect(log).to_contain_text("after the gate")
        await expect(page.locator("header .badge", has_text="completed")).to_be_visible()

        search = page.get_by_role("searchbox", name="Search the log")
        await search.fill("line 1234")
        await expect(page.get_by_text("1 line", exact=True)).to_be_visible()
        await search.press("Enter")
        await expect(log.locator(".log-line.at")).to_contain_text("line 1234")

        async with page.expect_download() as downloading:
            await page.get_by_role("button", name="Download").click()
        lines = _lines(Path(await (await downloading.value).path()))
        assert (len(lines), lines[0], lines[-1]) == (3002, "line 1", "after the gate")


async def test_device_readings_are_shown_during_and_after_a_session(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.device": "2"}, name="measured")
        await until_state(client, runs, "running")
        page = await tab.open(f"/sessions/{runs}")
        readings = page.get_by_role("region", name="Readings")
        await expect(readings.locator("figure canvas")).to_have_count(3)
        await expect(readings.locator(".plot-legend").first).to_contain_text(re.compile(r"cuda\d on demo-\d"))
        await until(lambda: _is_measured(client, runs))
        await client.change(CANCEL, {"id": runs})
        await until_state(client, runs, "canceled")
        await page.reload()
        await expect(page.locator("header .badge", has_text="canceled")).to_be_visible()
        await expect(readings.locator("figure canvas")).to_have_count(3)
        await expect(readings.get_by_role("figure", name="Power, W")).to_be_visible()


async def _is_measured(client: Client, session_id: str) -> bool:
    """Whether its history has enough samples for a plot."""
    found = (await client.execute(MEASURED, {"id": session_id}))["session_history"]["series"]
    return any(sum(value is not None for value in series["values"]) >= 2 for series in found)


async def test_a_waiting_session_can_be_held_released_and_given_a_higher_priority(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.device": "8"}, cluster_size=2, name="all-of-it")
        await until_state(client, runs, "running")
        waits = await submit(client, "true", {"cuda.device": "1"}, name="patient")
        page = await tab.open("/queue")
        row = page.locator(".queue tbody tr", has_text="patient")
        await expect(row.locator(".because")).to_contain_text("insufficient")
        await row.get_by_label("Priority of patient").select_option("high")
        await expect(page.get_by_text("The priority is now high.")).to_be_visible()
        await row.get_by_role("button", name="Hold patient").click()
        await expect(row.get_by_role("button", name="Release patient")).to_be_visible()
        await row.get_by_role("button", name="Release patient").click()
        await expect(row.get_by_role("button", name="Hold patient")).to_be_visible()
        await page.get_by_role("searchbox").fill("nobody-has-this")
        await expect(page.get_by_text("matches these filters")).to_be_visible()
        await page.get_by_role("searchbox").fill("patient")

        await tab.open(f"/sessions/{runs}")
        await page.get_by_role("button", name="Cancel all-of-it").click()
        await page.get_by_role("button", name="Cancel the session").click()
        assert (await until_state(client, waits, "completed"))["exit_code"] == 0


def _id(page: Page) -> str:
    found = SESSION.search(page.url)
    assert found
    return found[1]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
