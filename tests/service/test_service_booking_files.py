"""Booking files: each row is parsed or has its error, a dry run stores nothing, valid rows are booked."""

import asyncio
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.booking_files import BookingRow, rows_of
from aliquot.service.recurrence import occurrences
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import UserId
from aliquot_schema.requests import BookingFile, Role
from aliquot_schema.views.bookings import BookingImportView
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

BERLIN = "Europe/Berlin"
SHEET = """Person;Date;From;To;GPUs;Purpose
ann;2027-02-01;09:00;12:00;1;paper
ann;01.02.2027;22:00;02:00;1;night
ann;02/03/2027;09:00;12:00;1;when?
ann;2027-02-02;9 am;12:00;1;when?
ann;2027-02-02;09:00;12:00;1.5;half

"""


def read(text: str | bytes, name: str = "bookings.csv", zone: str | None = BERLIN) -> tuple[BookingRow, ...]:
    return rows_of(text.encode() if isinstance(text, str) else text, file_name=name, time_zone=zone)


def windows(rows: tuple[BookingRow, ...]) -> list[Any]:
    return [
        (row.number, f"{one.starts_at.astimezone(UTC):%d %H:%M}", f"{one.ends_at.astimezone(UTC):%d %H:%M}", one.gpus)
        if (one := row.asked) is not None
        else (row.number, row.error)
        for row in rows
    ]


def test_each_row_of_a_csv_file_is_read_or_has_an_error() -> None:
    rows = read(SHEET)
    assert windows(rows) == [
        (2, "01 08:00", "01 11:00", 1),
        (3, "01 21:00", "02 01:00", 1),
        (4, "date: 02/03/2027 can be read as day/month or month/day; write it like 2027-02-01 09:00"),
        (5, "start: '9 am' is not a time; write it like 2027-02-01 09:00"),
        (6, "gpus: '1.5' is not a whole number of GPUs, 1 or more"),
    ]
    assert (rows[0].user, rows[0].asked.name if rows[0].asked else None) == ("ann", "paper")


def test_a_workbook_is_read_like_the_same_rows_as_text() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book, packed = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["Start", "End", "GPU", "Name"])
    times = [datetime.fromisoformat(f"2027-02-01T{hour}:00") for hour in ("09", "12")]
    book.active.append([*times, 2, "paper"])
    book.active.append(["2027-02-01 13:00", None, 2, "open"])
    book.save(packed)
    rows = read(packed.getvalue(), "plan.xlsx")
    assert windows(rows) == [(2, "01 08:00", "01 11:00", 2), (3, "end: it is empty")]


def test_events_of_a_calendar_are_read_with_their_gpus_and_rules() -> None:
    pytest.importorskip("icalendar")
    event = "BEGIN:VEVENT\nUID:{0}\nDTSTAMP:20270101T000000Z\nSUMMARY:{1}\nDTSTART{2}\n{3}\nEND:VEVENT\n"
    events = [
        event.format(1, "course 2 GPUs", ";TZID=Europe/Berlin:20270201T090000", "DURATION:PT3H"),
        event.format(2, "all day", ";VALUE=DATE:20270201", "DTEND;VALUE=DATE:20270202"),
        event.format(3, "talk", ":20270201T090000Z", "DTEND:20270201T100000Z\nRRULE:FREQ=WEEKLY;COUNT=3"),
        event.format(4, "ever", ":20270201T090000Z", "DTEND:20270201T100000Z\nRRULE:FREQ=WEEKLY"),
        event.format(5, "off", ":20270201T090000Z", "DTEND:20270201T100000Z\nSTATUS:CANCELLED"),
    ]
    rows = read(calendar(*events), "lab.ics")
    assert windows(rows) == [
        (1, "01 08:00", "01 11:00", 2),
        (2, "31 23:00", "01 23:00", None),
        (3, "01 09:00", "01 10:00", None),
        (4, "RRULE: it has no last day (UNTIL or COUNT)"),
        (5, "it is canceled in the calendar"),
    ]
    assert [row.asked.repeats for row in rows[:3] if row.asked] == [None, None, "FREQ=WEEKLY;COUNT=3"]


def test_an_invalid_cell_is_an_error_of_its_own_row_only() -> None:
    lines = ["date,start,end,gpus", "2027-02-01,09:00,12:00,1"]
    lines += [f"2027-02-01,09:00,12:00,{gpus}" for gpus in ("nan", "inf", "1e400", "two")]
    lines += ["9999-12-31,22:00,02:00,1", "9999-12-31,22:00,24:00,1"]
    count, late = "is not a whole number of GPUs, 1 or more", "end: it is not within the years 1 to 9999"
    assert windows(read("\n".join(lines))) == [
        (2, "01 08:00", "01 11:00", 1),
        *((number, f"gpus: '{gpus}' {count}") for number, gpus in ((3, "nan"), (4, "inf"), (5, "1e400"), (6, "two"))),
        *((number, f"{late}; correct the date or duration") for number in (7, 8)),
    ]


def test_a_time_that_the_clocks_skip_is_an_error_of_its_row() -> None:
    rows = ["2027-03-28 02:30,2027-03-28 05:00", "2027-03-27 22:00,2027-03-28 02:30", "2027-03-28,2027-03-29"]
    missing = "2027-03-28 02:30 does not exist, the clocks go forward then; write another time"
    assert windows(read("\n".join(["start,end", *rows]))) == [
        (2, f"start: {missing}"),
        (3, f"end: {missing}"),
        (4, "27 23:00", "28 22:00", None),
    ]
    assert windows(read("date,start,end\n2027-03-27,22:00,02:30")) == [(2, f"end: {missing}")]
    midnight = read("start,end\n2026-09-06,2026-09-06 09:00", zone="America/Santiago")  # the day begins at 01:00
    assert windows(midnight) == [(2, "06 04:00", "06 12:00", None)]


def calendar(*events: str) -> str:
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{''.join(events)}END:VCALENDAR\n".replace("\n", "\r\n")


EVENT = "BEGIN:VEVENT\nUID:{0}\nDTSTAMP:20270101T000000Z\nSUMMARY:x\nDTSTART{1}\nDURATION:{2}\nEND:VEVENT\n"


def test_calendar_durations_are_read_or_are_an_error_of_their_own_event() -> None:
    pytest.importorskip("icalendar")
    events = [
        EVENT.format(1, ";TZID=Europe/Berlin:20261024T220000", "PT12H"),
        EVENT.format(2, ";VALUE=DATE:20261025", "P1D"),
        EVENT.format(3, ":20270201T090000Z", "P99999999D"),
        EVENT.format(4, ";TZID=Europe/Berlin:00010101T000000", "PT1H"),
        EVENT.format(5, ":20270201T090000Z", "P9999999999D"),
        EVENT.format(6, ":20270201T090000Z", f"PT1H\nRRULE:FREQ=DAILY;COUNT={10**20}"),
    ]
    wrong = "DURATION: it is not within the years 1 to 9999; correct the date or duration"
    assert windows(read(calendar(*events), "lab.ics")) == [
        (1, "24 20:00", "25 08:00", None),
        (2, "24 22:00", "25 23:00", None),
        (3, wrong),
        (4, wrong),
        (5, "it has neither DTEND nor one DURATION like PT2H"),
        (6, "its start, end or rule cannot be read"),
    ]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("who,when\na,b", "a.csv", "has no column start and end; it has: who, when"),
        ("start,end\n", "a.csv", "no bookings in the file"),
        ("start,end\n" + "2027-02-01,2027-02-02\n" * 501, "a.csv", "501 rows"),
        ("hello", "a.docx", "ends with none of"),
        ("hello", "a.xlsx", "not an XLSX workbook"),
        ("hello", "a.ics", "not an iCalendar file"),
        ("x" * 2_000_000, "a.csv", "more than 1024 KiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_as_a_whole(text: str, name: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read(text, name)
    with pytest.raises(InvalidRequest, match="is unknown"):
        read("start,end", zone="Mars/Base")


async def imported(on: Stage, text: str, *, dry_run: bool, caller: Any = CALLER) -> BookingImportView:
    asked = BookingFile(file_name="a.csv", content=text.encode(), dry_run=dry_run)
    task = asyncio.create_task(on.allocator.run())  # passes go on, as in a server
    try:
        async with asyncio.timeout(60):
            return await on.booking_imports.run(caller, asked)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def lines(view: BookingImportView) -> list[tuple[str, str]]:
    return [(one.state.value, one.message.partition(";")[0]) for one in view.rows]


async def test_a_dry_run_shows_the_outcome_of_each_row_and_a_repeated_import_books_once() -> None:
    async with stage([agent("a", devices=2)]) as on:
        day = datetime.fromtimestamp(on.clock.now_us() / 1e6, UTC) + timedelta(days=2)
        rows = ["name,start,end,gpus"]
        for gpus in (1, 2, 99):
            rows.append(f"lab,{day:%Y-%m-%d} 09:00,{day:%Y-%m-%d} 12:00,{gpus}")
        text = "\n".join([*rows, f"back,{day:%Y-%m-%d} 12:00,{day:%Y-%m-%d} 09:00,1"])
        before = on.state.revision
        dry = await imported(on, text, dry_run=True)
        assert (on.state.revision, dry.dry_run) == (before, True)
        assert [state for state, _ in lines(dry)] == ["bookable", "refused", "refused", "wrong"]
        assert lines(dry)[1][1].startswith(
            "1 GPU can be free for the whole window, and 2 were asked for. In the way: lab"
        )
        done = await imported(on, text, dry_run=False)
        assert [state for state, _ in lines(done)] == ["booked", "refused", "refused", "wrong"]
        assert [(one.name, one.gpus) for one in on.state.bookings.open] == [("lab", 1)]
        again = await imported(on, text, dry_run=False)
        assert lines(again)[0] == ("known", "It is booked already.")
        assert len(on.state.bookings.open) == 1


async def test_only_operators_book_for_others() -> None:
    async with stage([agent("a", devices=2)]) as on:
        text = "user,start,end\nnobody,1970-01-03 09:00,1970-01-03 10:00\n"
        assert lines(await imported(on, text, dry_run=True)) == [("wrong", "user: there is no user nobody")]
        ben = replace(CALLER, user=UserId("ben"), role=Role.USER)
        assert lines(await imported(on, text, dry_run=True, caller=ben))[0][0] == "wrong"


@pytest.mark.parametrize(
    ("zone", "until", "days"),
    [
        ("Europe/Berlin", "20270119T080000Z", ["05", "12", "19"]),
        ("Asia/Tokyo", "20270119T000000Z", ["05", "12", "19"]),
        ("America/Los_Angeles", "20270119T165959Z", ["05", "12"]),
        ("Europe/Berlin", "20270119T090000", ["05", "12", "19"]),
        ("Europe/Berlin", "20270118", ["05", "12"]),
    ],
)
def test_the_until_date_of_a_rule_is_read_in_its_own_time_zone(zone: str, until: str, days: list[str]) -> None:
    pytest.importorskip("icalendar")
    event = EVENT.format(1, f";TZID={zone}:20270105T090000", f"PT1H\nRRULE:FREQ=WEEKLY;UNTIL={until}")
    (row,) = read(calendar(event), "lab.ics")
    assert row.asked is not None
    assert row.asked.repeats is not None
    found = occurrences(row.asked.starts_at, row.asked.repeats, time_zone=row.asked.time_zone)
    assert [f"{at:%d}" for at in found] == days


def test_repeated_events_with_single_changed_dates_are_refused() -> None:
    pytest.importorskip("icalendar")
    weekly = "PT1H\nRRULE:FREQ=WEEKLY;COUNT=3"
    rows = read(
        calendar(
            EVENT.format(1, ":20270105T090000Z", f"{weekly}\nEXDATE:20270112T090000Z"),
            EVENT.format(2, ":20270105T090000Z", weekly),
            EVENT.format(2, ":20270113T090000Z", "PT1H\nRECURRENCE-ID:20270112T090000Z"),
        ),
        "lab.ics",
    )
    assert [None if row.error is None else "not supported; book it by hand" in row.error for row in rows] == [
        True,
        True,
        None,
    ]


def test_quotes_far_down_in_a_file_are_read() -> None:
    line = "row {0} of the plan,2027-02-01 09:00,2027-02-01 12:00\n"
    text = "name,start,end\n" + "".join(map(line.format, range(100)))
    rows = read(f'{text}"a ""b"", c",2027-02-01 09:00,2027-02-01 12:00\n')
    assert [row.error for row in rows] == [None] * 101
    assert rows[-1].asked is not None
    assert rows[-1].asked.name == 'a "b", c'
