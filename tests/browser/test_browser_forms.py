"""Text typed into dialogues outlives a sign-in that expires; the focus stays where it was of use."""

import asyncio

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, Route, expect

from aliquot.cli.acceptance.processes import OwnServer
from browser_tab import ADD_KEY, ADD_USER, SEEN, Tab, signed_in

pytestmark = pytest.mark.anyio


async def signs_in_again(tab: Tab, server: OwnServer) -> None:
    """The cookie ends under an open form, the form is sent, and the person signs in on the page that then appears."""
    page = tab.page
    tab.is_away_expected = True
    await page.context.clear_cookies()
    await page.get_by_role("dialog").get_by_role("button").last.click()
    await page.get_by_label("Key or token").fill(server.token)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_text("Your sign-in had ended, so this was not done.").wait_for()
    await page.get_by_role("button", name="Dismiss this message").click()


async def reopened(page: Page) -> None:
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.reload()


async def test_a_booking_that_was_typed_outlives_the_sign_in(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/calendar?view=day")
        await page.get_by_role("button", name="Book …").click()
        dialogue = page.get_by_role("dialog")
        await dialogue.get_by_label("Name").fill("paper")
        await dialogue.get_by_label("GPUs").fill("3")
        await dialogue.get_by_label("To").fill("2031-02-03T04:05")
        await signs_in_again(tab, demo)
        await expect(dialogue.get_by_label("Name")).to_have_value("paper")
        await expect(dialogue.get_by_label("GPUs")).to_have_value("3")
        await expect(dialogue.get_by_label("To")).to_have_value("2031-02-03T04:05")
        await reopened(page)
        await page.get_by_role("button", name="Book …").click()
        await expect(dialogue.get_by_label("Name")).to_have_value("")


async def test_a_quota_that_was_typed_outlives_the_sign_in(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=quotas")
        await page.get_by_role("button", name="New quota …").click()
        dialogue = page.get_by_role("dialog")
        await dialogue.get_by_label("Name").fill("ada")
        await signs_in_again(tab, demo)
        await expect(dialogue.get_by_label("Name")).to_have_value("ada")
        await reopened(page)
        await page.get_by_role("button", name="New quota …").click()
        await expect(dialogue.get_by_label("Name")).to_have_value("")


@pytest.mark.parametrize(
    ("address", "opener", "field", "typed"),
    [
        ("/admin?tab=agents", "Drain demo-1", "Reason", "new fans"),
        ("/admin?tab=agents", "Edit the labels of demo-1", "Labels", "rack=seven"),
        ("/admin?tab=alerts", "Change long wait", "Must hold for", "17m"),
        ("/admin?tab=access", "New user …", "Name", "grace"),
        ("/admin?tab=access", "New key …", "Purpose", "nightly jobs"),
        ("/sessions", "New notebook …", "Time limit", "7h"),
    ],
)
async def test_a_dialogue_that_was_typed_outlives_the_sign_in(
    browser: Browser, demo: OwnServer, address: str, opener: str, field: str, typed: str
) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open(address)
        await page.get_by_role("button", name=opener).click()
        typed_in = page.get_by_role("dialog").get_by_label(field, exact=True)
        before = await typed_in.input_value()
        await typed_in.fill(typed)
        if opener == "New key …":
            await page.get_by_role("dialog").get_by_label("User", exact=True).fill("ada")
        await signs_in_again(tab, demo)
        await expect(typed_in).to_have_value(typed)
        await reopened(page)
        await page.get_by_role("button", name=opener).click()
        await expect(typed_in).to_have_value(before)


async def test_the_name_of_a_secret_outlives_the_sign_in_but_not_its_value(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=access")
        await page.get_by_role("button", name="New secret …").click()
        dialogue = page.get_by_role("dialog")
        await dialogue.get_by_label("Name", exact=True).fill("HUB_TOKEN")
        await dialogue.get_by_label("Value").fill("of-ada")
        await signs_in_again(tab, demo)
        await expect(dialogue.get_by_label("Name", exact=True)).to_have_value("HUB_TOKEN")
        await expect(dialogue.get_by_label("Value")).to_have_value("")
        assert "of-ada" not in await page.evaluate("JSON.stringify(sessionStorage)")


async def test_the_focus_stays_beside_a_button_that_is_disabled_by_its_press(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/admin?tab=policy")
        version = page.get_by_text("version ", exact=False).first
        for press in ("Review 1 change", "Reset"):
            depth = page.get_by_label("Backfill depth")
            await depth.fill(str(int(await depth.input_value()) + 1))
            await page.get_by_role("button", name=press).press("Enter")
            if press != "Reset":
                await page.get_by_role("button", name="Save").press("Enter")
            await expect(page.get_by_role("button", name="No changes")).to_be_visible()
            await expect(version).to_be_focused()


async def test_a_form_is_not_that_of_another_user_who_signs_in_in_another_tab(
    browser: Browser, demo: OwnServer
) -> None:
    async with demo.client() as client:
        keys = []
        for name in ("anna", "carl"):
            await client.change(ADD_USER, {"input": {"name": name, "role": "user"}})
            keys.append((await client.change(ADD_KEY, {"input": {"user": name, "name": "laptop"}}))["secret"])
    async with signed_in(browser, demo, key=keys[0]) as tab:
        page = await tab.open("/submit")
        command = page.get_by_label("Command", exact=True)
        await command.fill("python annas.py")
        for name, key, typed in (("carl", keys[1], ""), ("anna", keys[0], "python annas.py")):
            code = await page.context.request.post(f"{demo.url}/login-code", headers={"authorization": f"Bearer {key}"})
            await page.context.request.get(demo.url + (await code.json())["path"])
            for state in ("hidden", "visible"):
                await page.evaluate(SEEN, state)
            await expect(page.get_by_role("button", name=f"Account of {name}")).to_be_visible()
            await expect(command).to_have_value(typed)


class SlowAnswer:
    """Keeps back the answers to one mutation of a page until it is let go."""

    def __init__(self, mutation: str) -> None:
        self._mutation = mutation
        self.is_asked, self.may_go = asyncio.Event(), asyncio.Event()

    async def take(self, route: Route) -> None:
        answer = await route.fetch()
        if f"mutation {self._mutation}" in (route.request.post_data or ""):
            self.is_asked.set()
            await self.may_go.wait()
        await route.fulfill(response=answer)


async def test_a_slow_answer_does_not_lead_away_from_the_page_that_is_shown_now(
    browser: Browser, demo: OwnServer
) -> None:
    slow = SlowAnswer("Submit")
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/submit")
        await page.route("**/graphql", slow.take)
        await page.get_by_label("Command", exact=True).fill("true")
        await page.get_by_label("Name", exact=True).fill("slow one")
        await page.get_by_role("button", name="Submit", exact=True).click()
        await slow.is_asked.wait()
        await page.get_by_role("link", name="Calendar", exact=True).click()
        await page.get_by_role("button", name="Book …").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("paper")
        slow.may_go.set()
        await expect(page.get_by_text("Submitted: slow one")).to_be_visible()
        await expect(page.get_by_role("dialog").get_by_label("Name")).to_have_value("paper")
        await expect(page).to_have_url(f"{demo.url}/calendar")


async def test_a_slow_answer_closes_no_form_that_was_opened_after_it(browser: Browser, demo: OwnServer) -> None:
    slow = SlowAnswer("Reserve")
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/calendar?view=day")
        await page.route("**/graphql", slow.take)
        dialogue = page.get_by_role("dialog")
        await page.get_by_role("button", name="Book …").click()
        await dialogue.get_by_label("Name").fill("first")
        await dialogue.get_by_role("button", name="Book").click()
        await slow.is_asked.wait()
        await dialogue.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="Book …").click()
        await dialogue.get_by_label("Name").fill("second")
        slow.may_go.set()
        await expect(page.get_by_text("Booked.")).to_be_visible()
        await expect(dialogue.get_by_label("Name")).to_have_value("second")
