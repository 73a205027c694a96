"""A network that is gone without a sign."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Route, WebSocketRoute, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import SOCKET, signed_in

pytestmark = pytest.mark.anyio


async def test_a_query_on_a_dead_connection_is_sent_again_when_the_server_is_back(
    browser: Browser, demo: OwnServer
) -> None:
    sockets: list[WebSocketRoute] = []
    asked: list[Route] = []

    async def pass_on(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    async def play(route: Route) -> None:
        is_first = route.request.post_data_json["operationName"] == "Queue" and not asked
        asked.append(route) if is_first else await route.continue_()

    async with signed_in(browser, demo) as tab:
        await tab.page.route_web_socket(SOCKET, pass_on)
        await tab.page.route("**/graphql", play)
        page = await tab.open("/sessions")
        await expect(page.get_by_title("The page is live.")).to_be_visible()
        await expect(page.get_by_role("heading", name="The queue is empty")).to_have_count(0)
        await sockets[0].close(code=1013)
        await expect(page.get_by_role("heading", name="The queue is empty")).to_be_visible()
        assert len(asked) == 1
