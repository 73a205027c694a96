"""The main job in the browser: device holders on the Cluster page, wait reasons on the Queue page."""

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.jobs import TASKS
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import run_acceptance
from browser_tab import signed_in

pytestmark = pytest.mark.anyio

# Sessions run for about a second, so everything shown at any time is collected.
WATCH = """
(selector) => {
  const seen = (window.seen = new Set());
  const look = () => document.querySelectorAll(selector).forEach((one) => seen.add(one.textContent.trim()));
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
}
"""
SEEN = "() => [...window.seen]"


async def test_the_dashboard_shows_twelve_sessions_from_the_queue_to_their_ends(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as cluster, signed_in(browser, demo) as queue:
        await cluster.open("/")
        await expect(cluster.page.locator(".tile")).to_have_count(16)
        await cluster.page.get_by_role("radio", name="By session").click()
        await queue.open("/queue")
        await expect(queue.page.get_by_text("The queue is empty")).to_be_visible()
        await cluster.page.evaluate(WATCH, ".tile .who .quiet")
        await queue.page.evaluate(WATCH, ".queue tbody tr .session-cell b, .because .badge")

        async with demo.client() as client:
            course = await run_acceptance(client, data_folder=demo.data_folder)

        names = {task.name for task in TASKS}
        held = set(await cluster.page.evaluate(SEEN))
        waited = set(await queue.page.evaluate(SEEN))
        # A session of a second may fall between two paints of a busy browser; most do not.
        assert held <= names
        assert "canceled" in held
        assert len(held) > len(names) / 2
        assert {"gang", "node-2"} <= waited
        assert {"insufficient", "behind head"} & waited

        await expect(queue.page.get_by_text("The queue is empty")).to_be_visible()
        await queue.page.get_by_role("radio", name="Ended").click()
        await expect(queue.page.locator(".queue tbody tr")).to_have_count(len(TASKS))
        states = await queue.page.locator(".queue tbody .badge").all_text_contents()
        assert sorted(states) == ["canceled", *["completed"] * 10, "failed"]
        await expect(cluster.page.locator(".tile.free")).to_have_count(16)
        assert len(course.ids) == len(TASKS)
