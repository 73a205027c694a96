"""The calendar: reservations and running sessions, booking by drag, on a phone and by keyboard."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright.async_api", reason="playwright drives the browser")

from playwright.async_api import Browser, Page, expect

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client.generated.bookings import ReserveInput
from aliquot.clock import SystemClock
from browser_tab import NEEDS_AXE, signed_in
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio


async def _fill(page: Page, name: str) -> None:
    dialogue = page.get_by_role("dialog")
    await dialogue.get_by_label("Name").fill(name)
    await dialogue.get_by_role("button", name="Book").click()
    await expect(dialogue).to_have_count(0)


async def test_a_window_is_booked_by_dragging_and_given_back(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        running = await submit(client, "sleep 600", {"cuda.device": "1"}, name="training", time_limit=7200)
        await until_state(client, running, "running")
        page = await tab.open("/calendar?view=day")
        await expect(page.get_by_text("training runs")).to_be_visible()
        await page.get_by_role("button", name="Later", exact=True).click()
        lane = page.locator(".fc-timegrid-col.fc-day")
        slot = page.locator(".fc-timegrid-slot-lane[data-time='10:00:00']")
        await slot.scroll_into_view_if_needed()
        box, column = await slot.bounding_box(), await lane.bounding_box()
        assert box is not None
        assert column is not None
        x = column["x"] + column["width"] / 2
        await page.mouse.move(x, box["y"] + 4)
        await page.mouse.down()
        await page.mouse.move(x, box["y"] + 4 + 3 * box["height"], steps=6)
        await expect(page.get_by_role("main").get_by_role("status")).to_contain_text(
            "GPUs can be booked for this window"
        )
        await page.mouse.up()
        await expect(page.get_by_role("dialog").get_by_text("It would delay no waiting session.")).to_be_visible()
        await _fill(page, "paper")
        (made,) = await client.reservations()
        assert (made.name, made.gpus) == ("paper", 1)
        await page.get_by_text("paper · ").first.click()
        await page.get_by_role("button", name="Cancel the booking …").click()
        await page.get_by_role("dialog", name="Cancel paper?").get_by_role("button", name="Cancel the booking").click()
        await expect(page.get_by_text("The booking is canceled.")).to_be_visible()
        await expect(page.get_by_text("paper · ")).to_have_count(0)


@NEEDS_AXE
async def test_an_empty_week_is_scrolled_by_keys(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab:
        page = await tab.open("/calendar")
        await page.get_by_role("button", name="Later", exact=True).click()  # other tests have entries today
        await page.set_viewport_size({"width": 1300, "height": 500})
        await page.get_by_role("button", name="Book …").focus()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("rowgroup", name="Hours")).to_be_focused()
        hours = page.locator(".fc-scroller-liquid-absolute")
        for key, expected in (("End", "> 0"), ("Home", "== 0"), ("PageDown", "> 0"), ("PageUp", "== 0")):
            await page.keyboard.press(key)
            await page.wait_for_function(f"(hours) => hours.scrollTop {expected}", arg=await hours.element_handle())
        assert await tab.accessibility() == []


async def test_a_booking_is_made_by_the_keyboard_on_a_narrow_screen(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/calendar")
        await page.set_viewport_size({"width": 390, "height": 800})
        await page.reload()
        await page.locator(".fc-timeGridDay-view").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.get_by_role("button", name="Book …").press("Enter")
        within = "(dialog) => dialog.scrollWidth <= dialog.clientWidth"
        assert await page.get_by_role("dialog").evaluate(within)
        await page.get_by_role("dialog").get_by_label("GPUs").fill("999")
        await expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text(
            "Pool default has 16 GPUs, and 999 were asked for."
        )
        await page.get_by_role("dialog").get_by_label("GPUs").fill("2")
        start = await page.get_by_role("dialog").get_by_label("From").input_value()
        await page.get_by_role("dialog").get_by_label("From").fill("2020-01-01T10:00")
        await expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("From: it is in the past")
        await page.get_by_role("dialog").get_by_label("From").fill("")
        await expect(page.get_by_role("dialog").get_by_text("Enter a date and a time.")).to_be_visible()
        await expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("")
        await page.get_by_role("dialog").get_by_label("From").fill(start)
        await _fill(page, "night")
        (made,) = await client.reservations()
        assert (made.name, made.gpus) == ("night", 2)
        shown = page.get_by_text("night · ").first
        if made.starts_at.hour == 0:  # the next full hour may be tomorrow's
            await page.get_by_role("button", name="Later", exact=True).click()
        await shown.focus()
        await page.get_by_role("radio", name="By node").click()
        await expect(page.get_by_role("button", name="All nodes")).to_be_visible()


async def test_a_spreadsheet_is_previewed_row_by_row_and_then_booked(browser: Browser, demo: OwnServer) -> None:
    sheet = "name,start,end,gpus\nimported,2027-02-01 09:00,2027-02-01 12:00,1\nslashed,02/03/2027,02/04/2027,1\n"
    files = {"name": "lab.csv", "mimeType": "text/csv", "buffer": sheet.encode()}
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/calendar?view=day")
        await page.get_by_role("button", name="Import …").click()
        dialogue = page.get_by_role("dialog")
        await dialogue.get_by_label("File").set_input_files([files])  # type: ignore[list-item]
        rows = dialogue.get_by_role("table", name="Rows of the file").get_by_role("row")
        await expect(rows.nth(1)).to_contain_text("bookable")
        await expect(rows.nth(2)).to_contain_text("can be read as day/month or month/day")
        assert [one.name for one in await client.reservations() if one.name == "imported"] == []
        await dialogue.get_by_role("button", name="Book 1 row").click()
        await expect(page.get_by_text("1 of 2 rows booked.")).to_be_visible()
        assert [one.gpus for one in await client.reservations() if one.name == "imported"] == [1]


async def test_a_spreadsheet_that_is_corrected_can_be_chosen_again(
    browser: Browser, demo: OwnServer, tmp_path: Path
) -> None:
    sheet = tmp_path / "lab.csv"
    sheet.write_text("name,start,end\none,2027-03-01 09:00,2027-03-01 12:00\ntwo,soon,2027-03-02 12:00\n")
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/calendar?view=day")
        await page.get_by_role("button", name="Import …").click()
        dialogue = page.get_by_role("dialog")
        await _choose(page, sheet)
        await expect(dialogue).to_contain_text("'soon' is not a time")
        sheet.write_text(sheet.read_text().replace("soon", "2027-03-02 09:00"))
        await _choose(page, sheet)
        await expect(dialogue.get_by_role("button", name="Book 2 rows")).to_be_visible()
        sheet.write_text("what was not previewed is not booked")
        await dialogue.get_by_role("button", name="Book 2 rows").click()
        await expect(page.get_by_text("2 of 2 rows booked.")).to_be_visible()
        assert {one.name for one in await client.reservations()} >= {"one", "two"}


async def test_a_repeated_booking_is_ended_with_the_later_ones(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        starts = datetime.fromtimestamp(SystemClock().now_us() // 10**6, UTC).replace(hour=9, minute=0) + timedelta(
            days=1
        )
        repeated = ReserveInput(
            name="seminar",
            starts_at=starts,
            ends_at=starts + timedelta(hours=2),
            gpus=1,
            repeats="FREQ=DAILY;COUNT=4",
        )
        await client.reserve(repeated)
        page = await tab.open("/calendar?view=day")
        await page.get_by_role("button", name="Later", exact=True).click()
        await page.get_by_role("button", name="Later", exact=True).click()
        await page.get_by_text("seminar-").first.click()
        await expect(page.get_by_text("It is one of the repeated booking seminar.")).to_be_visible()
        await page.get_by_role("button", name="Cancel it and later ones …").click()
        await page.get_by_role("button", name="Cancel them").click()
        await expect(page.get_by_text("This booking and the later ones are canceled.")).to_be_visible()
        left = [one.starts_at for one in await client.reservations() if one.series == "seminar"]
        assert left == [starts]


async def _choose(page: Page, path: Path) -> None:
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("dialog").get_by_label("File", exact=True).click()
    await (await choosing.value).set_files(path)


async def test_the_view_follows_the_address(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, viewport={"width": 1280, "height": 800}) as tab:
        page = await tab.open("/calendar?view=day")
        days = page.locator(".fc-col-header-cell")
        await expect(days).to_have_count(1)
        await page.get_by_role("link", name="Calendar", exact=True).click()
        await expect(page.get_by_role("radio", name="Week")).to_be_checked()
        await expect(days).to_have_count(7)
        await page.go_back()
        await expect(days).to_have_count(1)


async def test_a_session_is_submitted_into_a_booking_from_the_calendar(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo) as tab, demo.client() as client:
        page = await tab.open("/calendar?view=day")
        # In the last hour of a day, the next full hour is on the page of the next one.
        await page.get_by_role("button", name="Later", exact=True).click()
        tomorrow = datetime.fromtimestamp(SystemClock().now_us() // 10**6, UTC).astimezone() + timedelta(days=1)
        await page.get_by_role("button", name="Book …").click()
        await page.get_by_role("dialog").get_by_label("From").fill(f"{tomorrow:%Y-%m-%d}T10:00")
        await page.get_by_role("dialog").get_by_label("To").fill(f"{tomorrow:%Y-%m-%d}T12:00")
        await _fill(page, "course")
        await page.get_by_text("course · ").first.click()
        await page.get_by_role("link", name="Submit a session into it").click()
        await expect(page.get_by_role("button", name="Booking")).to_contain_text("course, ")
        await page.get_by_label("Command", exact=True).fill("true")
        await expect(page.locator(".submit-preview")).to_contain_text("course")
        await page.get_by_role("button", name="Submit", exact=True).click()
        await page.wait_for_url("**/sessions/ses_*")
        (booked,) = [one for one in await client.reservations() if one.name == "course"]
        assert list(booked.sessions) == [page.url.rsplit("/", 1)[1]]
        await client.give_back_reservation(name="course")


WITHOUT_DATES: Final = """
const get = Headers.prototype.get;
Headers.prototype.get = function (name) {
  return name === "date" ? null : get.call(this, name);
};
"""
"""The time of the server's answers is not known, so the page goes by the clock of the browser."""


async def test_a_calendar_that_is_open_at_midnight_shows_the_new_day(browser: Browser, demo: OwnServer) -> None:
    async with signed_in(browser, demo, timezone_id="Asia/Kathmandu") as tab:
        await tab.page.add_init_script(WITHOUT_DATES)
        await tab.page.clock.install(time=datetime(2031, 2, 3, 18, 5, tzinfo=UTC))
        page = await tab.open("/calendar?view=day")
        title = page.locator(".calendar b[aria-live]")
        await expect(title).to_have_text("February 3, 2031")
        await page.clock.fast_forward("20:00")
        await expect(title).to_have_text("February 4, 2031")
        await page.get_by_role("button", name="Book …").click()
        await expect(page.get_by_label("From")).to_have_value("2031-02-04T01:00")
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Later").click()
        await expect(title).to_have_text("February 5, 2031")
        await page.clock.fast_forward("24:00:00")
        await expect(page.locator(".fc-day-today").first).to_be_visible()
        await expect(title).to_have_text("February 5, 2031")
