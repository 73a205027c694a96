"""Actions on GraphiQL's page."""

from typing import Final

from playwright.async_api import Page, expect

SHOWS: Final = "text => document.querySelector('.result-window')?.innerText.replace(/\\s/g, '').includes(text)"
"""Lines wrap at the window's edge."""


async def choose(page: Page, group: str, title: str, field: str) -> None:
    """Click an example in the menu, and wait until the editor shows it."""
    # It is ready when its tab exists.
    await expect(page.locator(".graphiql-query-editor")).to_contain_text("{")
    menu = page.locator(".examples details").filter(has=page.locator("summary", has_text=group))
    if await menu.get_attribute("open") is None:
        await menu.locator("summary").click()
    await menu.get_by_role("button", name=title, exact=True).click()
    # The editor saves its text a moment later; running it sooner would run the previous text.
    await page.wait_for_function("field => localStorage.getItem('graphiql:query')?.includes(field)", arg=field)


async def execute(page: Page) -> None:
    """Run the editor's query."""
    await page.get_by_role("button", name="Execute query").click()
