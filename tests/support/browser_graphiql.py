"""GraphiQL's page, as a person uses it."""

from typing import Final

from playwright.async_api import Page, expect

SHOWS: Final = "text => document.querySelector('.result-window')?.innerText.replace(/\\s/g, '').includes(text)"
"""Lines are folded where the window ends."""


async def choose(page: Page, group: str, title: str, field: str) -> None:
    """Press an example in the menu, and wait until it is in the editor."""
    # It is complete when its tab is there.
    await expect(page.locator(".graphiql-query-editor")).to_contain_text("{")
    menu = page.locator(".examples details").filter(has=page.locator("summary", has_text=group))
    if await menu.get_attribute("open") is None:
        await menu.locator("summary").click()
    await menu.get_by_role("button", name=title, exact=True).click()
    # The editor reads what it shows a moment later, and keeps it then; who presses sooner runs what was there before.
    await page.wait_for_function("field => localStorage.getItem('graphiql:query')?.includes(field)", arg=field)


async def execute(page: Page) -> None:
    """Run what is in the editor."""
    await page.get_by_role("button", name="Execute query").click()
