"""Screenshots of the dashboard on a demo cluster under load.

`PYTHONPATH=tests/support python tests/browser/screenshots.py FOLDER [PAGE...]`; without pages, of all.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import async_playwright

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from browser_tab import launched, signed_in
from e2e_sessions import submit, until_state

BUSY = (
    "while :; do :; done & for i in $(seq 1 100000); do "
    'printf "\\033[32mstep\\033[0m %d  loss 0.%d\\n" $i $((9999-i)); sleep 0.2; done'
)
SIZES = {"wide": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
READINGS_MS = 7_000
"""Plots need a few readings, one every two seconds."""


async def take(folder: Path, wanted: Sequence[str] = ()) -> None:
    """Write a PNG of each wanted page (default: all), size and colour scheme."""
    async with OwnServer("--demo") as server, server.client() as client, async_playwright() as playwright:
        await until_joined(client, agents=2)
        runs, waits = await _scene(client)
        browser = await launched(playwright)
        for size, viewport in SIZES.items():
            for scheme in ("light", "dark"):
                async with signed_in(browser, server, viewport=viewport, color_scheme=scheme) as tab:
                    for name, path in _pages(runs, waits).items():
                        if wanted and name not in wanted:
                            continue
                        page = await tab.open(path)
                        await page.wait_for_timeout(READINGS_MS)
                        await page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")
        await browser.close()


def _pages(session_id: str, waits: str) -> dict[str, str]:
    return {
        "cluster": "/",
        "queue": "/queue",
        "session": f"/sessions/{session_id}",
        "submit": f"/submit?from={session_id}",
        "usage": "/usage",
        "waiting": f"/sessions/{waits}",
        "agents": "/admin",
        **{tab: f"/admin?tab={tab}" for tab in ("policy", "quotas", "alerts", "doctor", "audit", "access")},
        "graphiql": "/graphiql",
    }


async def _scene(client: Client) -> tuple[str, str]:
    """Submit sessions of many sizes; the ids of a running one with output and of a pending one."""
    await submit(client, "true", {"cuda.device": "1"}, name="smoke-test")
    first = await submit(client, BUSY, {"cuda.device": "2", "cpu": "8", "mem": "64g"}, name="llama-sft", cluster_size=2)
    await until_state(client, first, "running")
    await submit(client, "sleep 1000", {"cuda.device": "4", "cpu": "16"}, name="vit-pretrain", time_limit=7200.0)
    await submit(client, "sleep 1000", {"cuda.shares": "1.2"}, name="eval-mmlu")
    for index in range(3):
        await submit(client, BUSY, {"cuda.shares": "0.3"}, name=f"notebook-{index + 1}")
    await submit(client, "true", {"cuda.device": "8"}, name="gang", cluster_size=2, priority="high")
    await submit(client, "true", {"cuda.device": "8"}, name="node-wide", estimated_duration=3600.0)
    last = await submit(client, "true", {"cuda.device": "6"}, name="ablation", estimated_duration=1800.0)
    return first, last


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1]), sys.argv[2:]))
