"""Preemption: shown before submission, and afterwards for each attempt, with a receipt each time."""

from typing import Any, Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CANCEL
from aliquot.client import Client
from browser_tab import AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

POLICY: Final = """
mutation { update_policy(input: { order: "priority", preemption: { preempt: "preemptible", run_min: 0 } }) {
  __typename ... on Error { message }
} }
"""
ALL: Final[dict[str, Any]] = {"slots": {"cuda.device": "8"}, "cluster_size": 2}


async def test_preemptions_are_previewed_in_the_submit_form_and_listed_on_the_session_page(
    browser: Browser, demo: OwnServer
) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        await client.change(POLICY, {})
        humble = await submit(client, "sleep 1000", name="humble", preemptible=True, **ALL)
        await until_state(client, humble, "running")

        page = await tab.open("/submit")
        await page.get_by_label("Command").fill("sleep 1000")
        await page.get_by_label("Name").fill("urgent")
        await page.get_by_label("GPUs", exact=True).fill("8")
        preview = page.locator(".note", has_text="It would")
        await expect(preview).to_contain_text("It would wait")
        await expect(preview).not_to_contain_text("would preempt")
        await page.get_by_label("Priority").click()
        await page.get_by_role("option", name="high").click()
        await expect(preview).to_contain_text("It would preempt a session")
        await expect(preview.get_by_role("link", name=f"…{humble[-6:]}").last).to_be_visible()
        await expect(preview).to_contain_text("which has run")
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_role("heading", name="urgent")).to_be_visible()
        await expect(page.locator("header .badge", has_text="running")).to_be_visible()
        urgent = page.url.rpartition("/")[2]

        await _again(client, urgent, victim=humble)
        await tab.open(f"/sessions/{humble}")
        await expect(page.get_by_text("It was preempted 2 times.")).to_be_visible()
        earlier = page.get_by_role("list", name="Earlier preemptions")
        await expect(earlier).to_be_hidden()
        await page.get_by_text("1 earlier preemption").click()
        await expect(earlier.get_by_role("link", name=f"…{urgent[-6:]}")).to_be_visible()

        timeline = page.get_by_role("region", name="Timeline")
        await expect(timeline.get_by_role("heading", name="Waiting for attempt 3")).to_be_visible()
        for attempt in (2, 1):
            states = timeline.get_by_role("list", name=f"States of attempt {attempt}")
            await expect(states).to_be_hidden()
            await timeline.get_by_text(f"Attempt {attempt}", exact=False).last.click()
            for state in ("queued", "scheduled", "allocating", "running", "preempting"):
                await expect(states.get_by_text(state, exact=True)).to_be_visible()
        if AXE.is_file():
            assert await tab.accessibility() == []
        await client.change(CANCEL, {"id": humble})
        await expect(timeline.get_by_text("canceled")).to_be_visible()


async def _again(client: Client, urgent: str, *, victim: str) -> None:
    """The victim runs again, and is preempted by another session."""
    await client.change(CANCEL, {"id": urgent})
    await until_state(client, victim, "running")
    other = await submit(client, "sleep 1000", name="urgent-too", priority="high", **ALL)
    await until_state(client, other, "running")
    await until_state(client, victim, "queued")
