"""A thousand nodes of eight devices, all changing: only visible ones are drawn.

The API is mocked: that many agents would need a machine of their own.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Error, Route, WebSocketRoute, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import SOCKET, signed_in
from e2e_sessions import until

pytestmark = pytest.mark.anyio

NODES = 1000
PAGE = 100
TURNS: Final = 8
"""Agents measure every two seconds; updates come four times a second, with an eighth of the devices each."""
PAUSE_S: Final = 0.25
TILES_DRAWN_MAX = 400
FRAMES = """
(ms) => new Promise((done) => {
  const start = performance.now();
  let frames = 0;
  const step = (now) => {
    frames += 1;
    now - start < ms ? requestAnimationFrame(step) : done(frames / (now - start) * 1000);
  };
  requestAnimationFrame(step);
})
"""


@pytest.mark.parametrize("view", ["tiles", "heat"])
async def test_only_visible_devices_of_thousands_are_drawn(browser: Browser, demo: OwnServer, view: str) -> None:
    teller = _Teller()

    async def play(route: Route) -> None:
        body = route.request.post_data_json
        if body.get("operationName") not in ("Agents", "Cluster"):
            await route.continue_()
            return
        start = int(body["variables"].get("after") or 0)
        await route.fulfill(content_type="application/json", body=_answer(start))

    async with signed_in(browser, demo, viewport={"width": 1440, "height": 900}) as tab, teller:
        await tab.page.route("**/graphql", play)
        await tab.page.route_web_socket(SOCKET, teller.serve)
        page = await tab.open("/" if view == "heat" else f"/?view={view}")
        await expect(page.get_by_role("heading", name="n0", exact=True)).to_be_visible()
        await expect(page.get_by_text(f"of {8 * NODES}")).to_be_visible()
        print(f"{await page.evaluate(FRAMES, 4000):.0f} frames per second while all change")
        assert await page.locator(".tile").count() < TILES_DRAWN_MAX
        await expect(page.locator(".tile.cell")).to_have_count(
            0 if view == "tiles" else await page.locator(".tile").count()
        )
        last = page.get_by_role("heading", name=f"n{NODES - 1}", exact=True)
        while not await last.is_visible():
            await page.mouse.wheel(0, 1_000_000)
            await page.evaluate("new Promise(requestAnimationFrame)")
        assert await page.locator(".tile").count() < TILES_DRAWN_MAX
        await until(teller.has_told_all_twice)


class _Teller:
    """Mocks the server's side of the socket: all devices first, then an eighth of them repeatedly."""

    def __init__(self) -> None:
        self.number = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, Error):
                await task

    async def has_told_all_twice(self) -> bool:
        return self.number > 2 * TURNS

    def serve(self, socket: WebSocketRoute) -> None:
        socket.on_message(lambda message: self._on_event(socket, json.loads(message)))

    def _on_event(self, socket: WebSocketRoute, message: dict[str, Any]) -> None:
        match message["type"]:
            case "connection_init":
                socket.send('{"type": "connection_ack"}')
            case "ping":
                socket.send('{"type": "pong"}')
            case "subscribe" if "device_updates" in message["payload"]["query"]:
                self._tasks.append(asyncio.create_task(self._tell(socket, message["id"])))

    async def _tell(self, socket: WebSocketRoute, stream: str) -> None:
        while True:
            data = {"device_updates": _update(self.number)}
            socket.send(json.dumps({"type": "next", "id": stream, "payload": {"data": data}}))
            self.number += 1
            await asyncio.sleep(PAUSE_S)


def _update(number: int) -> dict[str, Any]:
    some = range(number % TURNS, NODES, TURNS) if number else range(NODES)
    agents = [{"agent_id": f"n{one}", "devices": _devices(one, number), "devices_gone": []} for one in some]
    return {"number": number, "is_snapshot": number == 0, "agents_gone": [], "agents": agents}


def _answer(start: int) -> str:
    end = min(NODES, start + PAGE)
    edges = [{"node": _agent(number)} for number in range(start, end)]
    info = {"hasNextPage": end < NODES, "endCursor": str(end)}
    return json.dumps({"data": {"agents": {"edges": edges, "pageInfo": info}}})


def _agent(number: int) -> dict[str, Any]:
    name = f"n{number}"
    return {
        **{key: name for key in ("id", "node_id", "hostname")},
        "state": "alive",
        "schedulable": True,
        "draining": False,
        "drained": False,
        "note": None,
        "pool": "default",
        "devices": _devices(number, 0),
    }


def _devices(number: int, rounds: int) -> list[dict[str, Any]]:
    return [_device(f"n{number}", index, (number + 7 * index + 13 * rounds) % 100) for index in range(8)]


def _device(node: str, index: int, busy: int) -> dict[str, Any]:
    return {
        "id": f"{node}-{index}",
        "name": f"cuda{index}",
        "kind": "cuda",
        "model": "H100",
        "health": "healthy",
        "foreign_usage": False,
        "isolation": "none",
        "numa_node": index // 4,
        "link_group": 0,
        "parent_id": None,
        "memory_bytes": 85_899_345_920,
        "capacity": "1.00",
        "used": "0.00",
        "free": "1.00",
        "holders": [],
        "utilization_pct": busy,
        "memory_used_bytes": busy * 2**29,
        "temperature_c": 30 + busy,
        "power_w": 70,
    }
