"""A thousand nodes of eight devices, all changing: only what is in sight is drawn.

The API is played to the page: that many agents would need a machine of their own.
"""

import json
from typing import Any

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Route, expect

from aliquot.cli.main_job.own_server import OwnServer
from browser_tab import signed_in

pytestmark = pytest.mark.anyio

NODES = 1000
PAGE = 100
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


async def test_thousands_of_devices_are_drawn_in_part(browser: Browser, demo: OwnServer) -> None:
    rounds = 0

    async def play(route: Route) -> None:
        nonlocal rounds
        body = route.request.post_data_json
        if body.get("operationName") != "Cluster":
            await route.continue_()
            return
        start = int(body["variables"].get("after") or 0)
        rounds += start == 0
        await route.fulfill(content_type="application/json", body=_answer(start, rounds))

    async with signed_in(browser, demo, viewport={"width": 1440, "height": 900}) as tab:
        await tab.page.route("**/graphql", play)
        page = await tab.open("/")
        await expect(page.get_by_role("heading", name="n0", exact=True)).to_be_visible()
        await expect(page.get_by_text(f"of {8 * NODES}")).to_be_visible()
        print(f"{await page.evaluate(FRAMES, 4000):.0f} frames per second while all change")
        assert await page.locator(".tile").count() < TILES_DRAWN_MAX
        await expect(page.locator(".tile").first).to_contain_text("%")
        last = page.get_by_role("heading", name=f"n{NODES - 1}", exact=True)
        while not await last.is_visible():
            await page.mouse.wheel(0, 1_000_000)
            await page.evaluate("new Promise(requestAnimationFrame)")
        assert await page.locator(".tile").count() < TILES_DRAWN_MAX
        assert rounds >= 2, "it was asked again meanwhile"


def _answer(start: int, rounds: int) -> str:
    end = min(NODES, start + PAGE)
    edges = [{"node": _agent(number, rounds)} for number in range(start, end)]
    info = {"hasNextPage": end < NODES, "endCursor": str(end)}
    return json.dumps(
        {"data": {"agents": {"edges": edges, "pageInfo": info, "total_count": NODES, "revision": rounds}}}
    )


def _agent(number: int, rounds: int) -> dict[str, Any]:
    name = f"n{number}"
    return {
        **{key: name for key in ("id", "node_id", "hostname")},
        "state": "alive",
        "schedulable": True,
        "draining": False,
        "drained": False,
        "note": None,
        "pool": "default",
        "allocation_mode": "shared",
        "labels": [],
        "capabilities": {"device_access": "env"},
        "devices": [_device(name, index, (number + 7 * index + 13 * rounds) % 100) for index in range(8)],
    }


def _device(node: str, index: int, busy: int) -> dict[str, Any]:
    return {
        "id": f"{node}-{index}",
        "name": f"cuda{index}",
        "kind": "cuda",
        "model": "H100",
        "health": "healthy",
        "external": False,
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
