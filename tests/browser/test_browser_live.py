"""Live updates: pages subscribe to changes; without a socket they poll, and mark data as stale."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, Route, WebSocket, WebSocketRoute, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from browser_tab import SOCKET, signed_in
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio

LOOKED_AT: Final = """
(state) => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


async def test_devices_and_a_session_are_updated_without_polling(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as cluster, signed_in(browser, demo) as tab, demo.client() as client:
        for one, operation in ((cluster, "Cluster"), (tab, "Session")):
            one.is_away_expected = True
            await _answered_once(one.page, operation)
        await expect((await cluster.open("/")).locator(".tile.free")).to_have_count(16)
        runs = await submit(client, "sleep 1000", {"cuda.device": "3"}, name="told-of")
        await expect(cluster.page.locator(".tile", has_text="told-of")).to_have_count(3)
        page = await tab.open(f"/sessions/{runs}")
        await expect(page.locator("header .badge", has_text="running")).to_be_visible()
        await client.change(CANCEL, {"id": runs})
        await expect(page.locator("header .badge", has_text="canceled")).to_be_visible()
        await expect(page.get_by_role("region", name="Kernels")).to_contain_text("exited")
        await expect(cluster.page.locator(".tile.free")).to_have_count(16)


async def _answered_once(page: Page, operation: str) -> None:
    """Let only the first such query through."""
    answered = 0

    async def play(route: Route) -> None:
        nonlocal answered
        if route.request.post_data_json.get("operationName") != operation:
            await route.continue_()
            return
        answered += 1
        await (route.continue_() if answered == 1 else route.abort())

    await page.route("**/graphql", play)


async def test_without_a_websocket_pages_poll_and_are_marked_as_stale(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        tab.is_away_expected = True
        await tab.page.route_web_socket(SOCKET, _refuse)
        page = await tab.open("/")
        await expect(page.locator(".connection.lost")).to_contain_text("at most a minute old")
        await expect(page.locator("main.stale")).to_be_visible()
        runs = await submit(client, "sleep 1000", {"cuda.device": "2"}, name="asked-for")
        await expect(page.locator(".tile", has_text="asked-for")).to_have_count(2)
        await tab.open(f"/sessions/{runs}")
        await expect(page.locator("header .badge", has_text="running")).to_be_visible()
        await client.change(CANCEL, {"id": runs})
        await expect(page.locator("header .badge", has_text="canceled")).to_be_visible()
        await expect(page.locator(".connection.lost")).to_be_visible()


async def _refuse(socket: WebSocketRoute) -> None:
    await socket.close(code=1013)


async def test_leaving_a_page_ends_its_subscriptions(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        runs = await submit(client, "echo hello; sleep 1000", {"cuda.shares": "0.1"}, name="quiet")
        await until_state(client, runs, "running")
        sent: list[dict[str, Any]] = []
        tab.page.on("websocket", lambda socket: _note(socket, sent))
        page = await tab.open(f"/sessions/{runs}")
        await expect(page.get_by_role("log")).to_contain_text("hello")
        streams = ("session_logs", "session_updates")
        await until(lambda: _are_sent(sent, streams, frames="subscribe"))
        await page.get_by_role("link", name="Sessions", exact=False).first.click()
        await until(lambda: _are_sent(sent, streams, frames="complete"))
        await client.change(CANCEL, {"id": runs})


def _note(socket: WebSocket, sent: list[dict[str, Any]], told: list[dict[str, Any]] | None = None) -> None:
    socket.on("framesent", lambda frame: sent.append(json.loads(frame)))
    if told is not None:
        socket.on("framereceived", lambda frame: told.append(json.loads(frame)))


async def _are_sent(sent: Sequence[dict[str, Any]], streams: Sequence[str], *, frames: str) -> bool:
    """Whether a frame of this kind was sent for a subscription to each stream."""
    begun = {one["id"]: one["payload"]["query"] for one in sent if one["type"] == "subscribe"}
    of = [begun[one["id"]] for one in sent if one["type"] == frames]
    return all(any(stream in query for query in of) for stream in streams)


async def test_a_page_subscribes_again_when_it_becomes_visible(browser: Browser, demo: OwnServer) -> None:
    """No more events follow, so a page that is not sent the state would poll forever."""
    async with signed_in(browser, demo) as tab, demo.client() as client:
        ended = await submit(client, "true", {"cpu": "1"}, name="all-over")
        await until_state(client, ended, "completed")
        sent: list[dict[str, Any]] = []
        told: list[dict[str, Any]] = []
        tab.page.on("websocket", lambda socket: _note(socket, sent, told))
        page = await tab.open(f"/sessions/{ended}")
        await until(lambda: _is_told(told, "session_updates"))
        await page.evaluate(LOOKED_AT, "hidden")
        await until(lambda: _are_sent(sent, ["session_updates"], frames="complete"))
        told.clear()
        await page.evaluate(LOOKED_AT, "visible")
        await until(lambda: _is_told(told, "session_updates"))


async def _is_told(told: Sequence[dict[str, Any]], stream: str) -> bool:
    return any(stream in one["payload"]["data"] for one in told if one["type"] == "next")


async def test_leaving_a_page_during_a_request_causes_no_error(browser: Browser, demo: OwnServer) -> None:
    is_asked, is_left = asyncio.Event(), asyncio.Event()

    async def play(route: Route) -> None:
        if route.request.post_data_json.get("operationName") != "Queue":
            await route.continue_()
            return
        is_asked.set()
        await is_left.wait()
        await route.abort()

    async with signed_in(browser, demo) as tab:
        tab.is_away_expected = True
        page = await tab.open("/usage")
        await page.route("**/graphql", play)
        await page.get_by_role("link", name="Sessions", exact=False).first.click()
        await is_asked.wait()
        await page.get_by_role("link", name="Submit").click()
        await expect(page.get_by_role("heading", name="Submit a session")).to_be_visible()
        async with page.expect_event("requestfailed"):
            is_left.set()
        await page.evaluate("new Promise(requestAnimationFrame)")
