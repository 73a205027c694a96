"""The Sessions page: filters in the URL, saved views, columns, and bulk actions."""

from typing import Any, Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client.generated.inputs import CancelSessionInput
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio


def _tags(**values: str) -> dict[str, Any]:
    return {"tags": [{"name": name, "value": value} for name, value in values.items()]}


async def test_session_filters_are_kept_in_the_url_and_saved_as_views(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        for number in range(3):
            failed = await submit(client, "exit 3", {"cpu": "1"}, name=f"sweep-{number}", **_tags(lr=f"0.{number}"))
            await until_state(client, failed, "failed")
        page = await tab.open("/queue")
        await expect(page).to_have_url(f"{demo.url}/sessions")
        await page.get_by_role("radio", name="Ended").click()
        await page.get_by_label("Tag: a name").fill("lr=0.1")
        rows = page.locator(".queue tbody tr")
        await expect(rows).to_have_count(1)
        await expect(rows.first.locator("[data-label='exit code']")).to_have_text("3")
        await page.get_by_role("button", name="any state").click()
        await page.get_by_role("option", name="failed").click()
        address = f"{demo.url}/sessions?state=failed&tag=lr%3D0.1"
        await expect(page).to_have_url(address)
        await page.reload()
        await expect(page.get_by_role("link", name="sweep-1")).to_be_visible()
        await expect(rows).to_have_count(1)

        await page.get_by_role("button", name="Views").click()
        await page.get_by_label("Save these filters as").fill("my sweep")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("link", name="my sweep")).to_be_visible()
        await page.get_by_role("link", name="Mine, running").click()
        await expect(page.get_by_role("radio", name="Running")).to_be_checked()
        await page.go_back()
        await expect(page).to_have_url(address)
        await page.get_by_role("button", name="Clear").click()
        await expect(rows).to_have_count(3)
        await page.get_by_role("button", name="Views").click()
        await page.get_by_role("link", name="my sweep").click()
        await expect(page).to_have_url(address)
        await page.get_by_role("button", name="Views").click()
        await page.get_by_role("button", name="Delete the view my sweep").click()
        await expect(page.get_by_role("link", name="my sweep")).to_have_count(0)


async def test_a_running_session_shows_its_gpus(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "sleep 1000", {"cuda.device": "2"}, name="with-gpus")
        await until_state(client, runs, "running")
        page = await tab.open("/sessions?state=running&q=with-gpus")
        row = page.locator(".queue tbody tr")
        await expect(row.locator("[data-label=GPUs]")).to_have_text("2")
        await expect(row.locator("[data-label='GPU use']")).to_contain_text("%")
        await row.get_by_role("link", name="demo-").first.wait_for()


@NEEDS_AXE
async def test_several_sessions_can_be_held_and_canceled_together(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        busy = await submit(client, "sleep 600", {"cuda.device": "1"})
        await until_state(client, busy, "running")
        ids = [await submit(client, "true", {"cuda.device": "8"}, cluster_size=2, name=f"bulk-{n}") for n in range(3)]
        page = await tab.open("/sessions?q=bulk-")
        await expect(page.locator(".queue tbody tr")).to_have_count(3)
        await page.get_by_label("Select bulk-0").check()
        await page.get_by_label("Select bulk-2").check()
        bar = page.get_by_role("group", name="Selected sessions")
        await expect(bar).to_contain_text("2 selected")
        assert await tab.accessibility() == []
        await bar.get_by_label("Priority of the selected sessions").select_option("low")
        await expect(page.get_by_text("Priority low: 2 sessions.")).to_be_visible()
        await page.get_by_label("Select all").check()
        await bar.get_by_role("button", name="Hold 3").click()
        await expect(page.get_by_text("Held: 3 sessions.")).to_be_visible()
        await expect(page.locator(".queue .badge", has_text="held")).to_have_count(3)
        await page.get_by_label("Select all").check()
        await bar.get_by_role("button", name="Cancel 3").click()
        await page.get_by_role("button", name="Cancel the sessions").press("Enter")
        await expect(page.get_by_text("Canceled: 3 sessions.")).to_be_visible()
        await expect(page.get_by_role("main")).to_be_focused()
        await client.cancel_session(CancelSessionInput(id=busy))
        for session_id in (*ids, busy):
            await until_state(client, session_id, "canceled")


async def test_the_tab_of_a_session_has_its_name(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        first, second = [await submit(client, "true", {"cpu": "1"}, name=name) for name in ("train-a", "train-b")]
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{first}")
        await expect(page).to_have_title("train-a · Aliquot")
        await tab.open(f"/sessions/{second}")
        await expect(page).to_have_title("train-b · Aliquot")
        await page.get_by_role("link", name="Sessions").click()
        await expect(page).to_have_title("Sessions · Aliquot")
        await page.go_back()
        await expect(page).to_have_title("train-b · Aliquot")


async def test_an_elastic_session_says_with_how_few_kernels_it_starts(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        elastic = await submit(client, "true", {"cpu": "1"}, cluster_size=4, cluster_size_min=2)
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/sessions/{elastic}")
        await expect(page.get_by_role("region", name="Request")).to_contain_text("at least 2 of its kernels")


async def test_rows_out_of_view_are_not_drawn_every_second(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        one = {"command": {"argv": ["true"]}, "slots": [{"slot": "cpu", "amount": "1"}], "held": True}
        made = await client.execute(MANY, {"input": {"sessions": [{**one, "name": f"row-{at}"} for at in range(80)]}})
        page = await tab.open("/sessions")
        await expect(page.locator("td[data-label=waited]")).to_have_count(80)
        await page.evaluate(COUNT_TEXTS)
        await page.wait_for_function("() => texts.get(cells[0]) >= 3")
        assert await page.evaluate("texts.get(cells[79]) ?? 0") <= 1  # once where a minute begins meanwhile
        await page.locator("td[data-label=waited]").last.scroll_into_view_if_needed()
        await page.wait_for_function("() => texts.get(cells[79]) >= 3")
        for created in made["create_sessions"]["results"]:
            await client.cancel_session(CancelSessionInput(id=created["session"]["id"]))


MANY: Final = """
mutation ($input: CreateSessionsInput!) {
  create_sessions(input: $input) { __typename ... on CreateSessionsSuccess { results { session { id } } } }
}
"""
COUNT_TEXTS: Final = """
() => {
  window.texts = new Map();
  window.cells = [...document.querySelectorAll("td[data-label=waited]")];
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const cell = target.parentElement.closest("td");
      texts.set(cell, (texts.get(cell) ?? 0) + 1);
    }
  }).observe(document.querySelector("table.queue"), { characterData: true, subtree: true });
}
"""
"""Counts how often the text of each cell changes."""


async def test_the_focus_stays_in_the_table_when_an_action_moves_or_removes_its_row(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        work = {"command": {"argv": ["true"]}, "slots": [{"slot": "cuda.device", "amount": "8"}], "cluster_size": 2}
        busy = await submit(client, "sleep 600", {"cuda.device": "1"})
        await until_state(client, busy, "running")
        made = await client.execute(MANY, {"input": {"sessions": [{**work, "name": f"focus-{at}"} for at in range(4)]}})
        page = await tab.open("/sessions?q=focus-")
        await page.get_by_role("button", name="Hold focus-0").press("Enter")
        await expect(page.get_by_role("button", name="Release focus-0")).to_be_focused()
        await page.get_by_role("button", name="Cancel focus-1").press("Enter")
        await page.get_by_role("button", name="Cancel the session").press("Enter")
        await expect(page.get_by_role("link", name="focus-1")).to_have_count(0)
        assert await page.evaluate("document.activeElement.closest('tbody > tr') !== null")
        for created in made["create_sessions"]["results"]:
            await client.cancel_session(CancelSessionInput(id=created["session"]["id"]))
        await client.cancel_session(CancelSessionInput(id=busy))
