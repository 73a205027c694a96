"""Policy and quota changes are backtested on the last week before they are saved."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Locator, Route, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import NEEDS_AXE, counts_clicks, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

BACKTEST_MS: Final = 120_000
QUOTAS: Final = "{ quotas { scope name max_slots { slot amount } } }"
START: Final = """
mutation ($input: BacktestInput!) { start_backtest(input: $input) { ... on Backtest { id } } }
"""
CANCEL: Final = "mutation ($id: ID!) { cancel_backtest(id: $id) { __typename } }"


@pytest.fixture(scope="module")
async def live(anyio_backend: str, browser: Browser) -> AsyncIterator[OwnServer]:
    """A demo with a week of history."""
    async with OwnServer("--demo-live") as server:
        yield server


async def tried(dialogue: Locator) -> Locator:
    """The results table, after the backtest of the last week."""
    await dialogue.get_by_role("button", name="Try on the last week").click()
    figures = dialogue.get_by_role("table").filter(has_text="as it was decided")
    await expect(figures).to_be_visible(timeout=BACKTEST_MS)
    await expect(figures).to_contain_text("with the changes")
    await expect(dialogue.get_by_text("start exactly when they started")).to_be_visible()
    return figures


@NEEDS_AXE
async def test_a_policy_is_tried_before_it_is_saved(browser: Browser, live: OwnServer) -> None:
    async with signed_in(browser, live) as tab:
        page = await tab.open("/admin?tab=policy")
        await page.get_by_label("Backfill depth").fill("1")
        await page.get_by_role("button", name="Review 1 change").click()
        dialogue = page.get_by_role("dialog")
        await tried(dialogue)
        assert await tab.accessibility() == []
        await dialogue.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The policy is changed")).to_be_visible()


@NEEDS_AXE
async def test_a_quota_is_simulated_and_raised_in_four_clicks(browser: Browser, live: OwnServer) -> None:
    async with signed_in(browser, live) as tab, live.client() as client:
        page = await tab.open("/")
        async with counts_clicks(tab, most=4):
            await page.get_by_role("link", name="Usage").click()
            await page.get_by_role("link", name="quota of robotics").first.click()
            dialogue = page.get_by_role("dialog")
            await expect(page).to_have_url(f"{live.url}/admin?tab=quotas&of=project%3Arobotics")
            await dialogue.get_by_role("group", name="Maximum held").get_by_label("GPUs").fill("7")
            figures = await tried(dialogue)
            assert await tab.accessibility() == []
            await dialogue.get_by_role("group", name="Maximum held").get_by_label("GPUs").fill("8")
            await expect(figures, "figures of other limits").to_have_count(0)
            await dialogue.get_by_role("button", name="Save").click()
            await expect(page.get_by_text("The quota is saved.")).to_be_visible()
            await expect(page).to_have_url(f"{live.url}/admin?tab=quotas")
            [quota] = [one for one in (await client.execute(QUOTAS))["quotas"] if one["name"] == "robotics"]
            assert {"slot": "cuda.device", "amount": "8"} in quota["max_slots"]


async def test_a_backtest_is_followed_on_when_the_server_is_back(browser: Browser, demo: OwnServer) -> None:
    lost = 0

    async def lose_two(route: Route) -> None:
        nonlocal lost
        lost += (is_lost := "query Backtest(" in (route.request.post_data or "") and lost < 2)
        await (route.abort() if is_lost else route.continue_())

    async with demo.client() as client:
        await until_state(client, await submit(client, "true", {"cuda.device": "1"}), "completed")
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=backtest&id=bkt_gone")
        await expect(page.get_by_text("This backtest is not kept any more. The newest 50 are.")).to_be_visible()
        tab.is_away_expected = True
        await page.route("**/graphql", lose_two)
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_text("The server cannot be reached. Trying again …")).to_be_visible()
        await expect(page.get_by_role("region", name="Figures of the runs")).to_contain_text("fcfs, easy")
        await expect(page.locator(".wrong")).to_have_count(0)


async def test_another_backtest_does_not_keep_the_error_of_one_that_is_gone(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=backtest&id=bkt_gone")
        await expect(page.get_by_text("This backtest is not kept any more. The newest 50 are.")).to_be_visible()
        await page.get_by_role("region", name="Backtests").get_by_role("button").first.click()
        await expect(page.get_by_role("region", name="Figures of the runs")).to_be_visible()
        await expect(page.locator(".wrong")).to_have_count(0)


async def test_a_canceled_backtest_says_why_it_shows_no_figures(browser: Browser, demo: OwnServer) -> None:
    async with demo.client() as client:
        runs = [{"label": "first", "policy": {"order": "fcfs"}}]
        begun = [(await client.execute(START, {"input": {"runs": runs}}))["start_backtest"]["id"] for _ in range(2)]
        await client.execute(CANCEL, {"id": begun[1]})
    async with signed_in(browser, demo) as tab:
        page = await tab.open(f"/admin?tab=backtest&id={begun[1]}")
        await expect(page.get_by_text("It was canceled, so it has no result.")).to_be_visible()
