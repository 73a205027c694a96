"""Booking files: reads rows of bookings from a spreadsheet (CSV, XLSX) or a calendar (ICS), each row or its error.

The first line of a spreadsheet names the columns, in any order and case; `COLUMNS` has the accepted names. Times
without a zone are in the zone that the caller names.
"""

import csv
import io
import re
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.requests import NewBooking

BYTES_MAX: Final = 1 << 20
UNPACKED_BYTES_MAX: Final = 64 << 20
"""Of a workbook, which is a ZIP file."""
ROWS_MAX: Final = 500
TEXT_CHARS_MAX: Final = 300
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name", "title", "booking", "purpose", "summary"),
    "user": ("user", "owner", "person", "who"),
    "date": ("date", "day"),
    "start": ("start", "from", "begin", "start time", "starts"),
    "end": ("end", "to", "until", "end time", "ends"),
    "gpus": ("gpus", "gpu", "number of gpus", "count"),
    "model": ("model", "gpu model", "gpu type"),
    "device": ("device", "devices"),
    "node": ("maintenance", "nodes under maintenance"),
    "project": ("project", "group"),
    "pool": ("pool",),
}
"""Accepted names of each column. `start` and `end` are required; with `date` they may be times of day."""
_NAMES: Final = {name: column for column, names in COLUMNS.items() for name in names}
_FORMS: Final = ("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::[0-5]\d)?")
_SLASHED: Final = re.compile(r"\d{1,2}/\d{1,2}/\d{2,4}")
_GPUS: Final = re.compile(r"(\d{1,5})\s*(?:x\s*)?GPUs?\b", re.IGNORECASE)
_RULE_FIELDS: Final = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH")


class BookingRow(Struct, frozen=True, kw_only=True):
    """One row of a file."""

    number: int
    """The line of a spreadsheet, from 1 for the heading; of a calendar, the number of the event from 1."""
    text: str
    """The row as it was read, shortened."""
    asked: NewBooking | None = None
    """None = it cannot be read."""
    user: str | None = None
    """For whom it is; None = the caller."""
    error: str | None = None


class _RowError(Exception):
    """A row cannot be read; the text says why."""


def rows_of(content: bytes, *, file_name: str, time_zone: str | None) -> tuple[BookingRow, ...]:
    """The rows of a file, by the ending of its name: `.csv`, `.tsv`, `.xlsx` or `.ics`.

    Raises:
        InvalidRequest: the file cannot be read, is too large, has no bookings or lacks a column; the zone is unknown.
        Unavailable: the server lacks the extra that reads such files.
    """
    if len(content) > BYTES_MAX:
        raise InvalidRequest(f"content: the file has more than {BYTES_MAX // 1024} KiB; split it", field="content")
    zone = _zone(time_zone)
    ending = file_name.lower().rpartition(".")[2]
    if ending in ("csv", "tsv"):
        found = _of_table(_csv_rows(content), zone)
    elif ending == "xlsx":
        found = _of_table(_workbook_rows(content), zone)
    elif ending in ("ics", "ical"):
        found = list(_calendar_rows(content, zone, time_zone))
    else:
        raise InvalidRequest(
            f"file_name: {file_name[:80]!r} ends with none of .csv, .tsv, .xlsx and .ics", field="file_name"
        )
    if not found:
        raise InvalidRequest("content: there are no bookings in the file", field="content")
    if len(found) > ROWS_MAX:
        raise InvalidRequest(f"content: there are {len(found)} rows; import at most {ROWS_MAX}", field="content")
    return tuple(found)


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        message = f"time_zone: {str(name)[:64]!r} is unknown; give one like Europe/Berlin"
        raise InvalidRequest(message, field="time_zone") from None


def _csv_rows(content: bytes) -> list[list[Any]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")  # what Excel writes
    if "\0" in text:
        raise InvalidRequest("content: this is not a text file", field="content")
    try:
        found = csv.Sniffer().sniff(text[:4096], delimiters=",;\t")
        delimiter, skips = found.delimiter, found.skipinitialspace
    except csv.Error:
        delimiter, skips = ",", False
    try:
        return [list(row) for row in csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=skips)]
    except csv.Error as error:
        raise InvalidRequest(f"content: {error}", field="content") from None


def _workbook_rows(content: bytes) -> list[list[Any]]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise Unavailable(
            "XLSX needs an extra on the server: pip install 'aliquot[spreadsheet]'; or save as CSV"
        ) from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            size = sum(one.file_size for one in packed.infolist())
        if size > UNPACKED_BYTES_MAX:
            raise InvalidRequest("content: the workbook is too large; save the sheet as CSV", field="content")
        book = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        rows = book.worksheets[0].iter_rows(max_row=ROWS_MAX + 100, max_col=64, values_only=True)
        return [list(row) for row in rows]
    except InvalidRequest:
        raise
    except Exception as error:  # of many libraries below, for a file that is not a workbook
        raise InvalidRequest(
            f"content: this is not an XLSX workbook ({type(error).__name__})", field="content"
        ) from None


def _of_table(table: Sequence[Sequence[Any]], zone: ZoneInfo) -> list[BookingRow]:
    if not table:
        return []
    columns = [_NAMES.get(_text(cell).casefold().replace("_", " ")) for cell in table[0]]
    missing = [name for name in ("start", "end") if name not in columns]
    if missing:
        known = ", ".join(_text(cell) for cell in table[0][:12])
        message = f"content: the first line has no column {' and '.join(missing)}; it has: {known[:TEXT_CHARS_MAX]}"
        raise InvalidRequest(message, field="content")
    found = []
    for number, cells in enumerate(table[1:], start=2):
        values = {column: cell for column, cell in zip(columns, cells, strict=False) if column and _text(cell)}
        if not values:
            continue
        text = ", ".join(_text(cell) for cell in cells if _text(cell))[:TEXT_CHARS_MAX]
        try:
            asked = _asked(values, number, zone)
        except _RowError as error:
            found.append(BookingRow(number=number, text=text, error=str(error)))
            continue
        user = _text(values.get("user")) or None
        found.append(BookingRow(number=number, text=text, asked=asked, user=user))
    return found


def _asked(values: Mapping[str, Any], number: int, zone: ZoneInfo) -> NewBooking:
    day = values.get("date")
    starts_at = _moment(values.get("start"), "start", zone, day=day)
    ends_at = _moment(values.get("end"), "end", zone, day=day)
    if day is not None and ends_at <= starts_at and _is_clock(values.get("end")):
        ends_at = _later(ends_at, timedelta(days=1), "end")  # over midnight
    _check_exists(starts_at, "start")
    _check_exists(ends_at, "end")
    return NewBooking(
        name=_text(values.get("name")) or f"row-{number}",
        starts_at=starts_at,
        ends_at=ends_at,
        gpus=_count(values.get("gpus")),
        models=_listed(values.get("model")),
        devices=_listed(values.get("device")),
        nodes=_listed(values.get("node")),
        project=_text(values.get("project")) or None,
        pool=_text(values.get("pool")) or None,
    )


def _moment(cell: Any, column: str, zone: ZoneInfo, *, day: Any) -> datetime:
    """A time of a cell, aware.

    Raises:
        _RowError: it is none, or could be two.
    """
    if isinstance(cell, datetime):
        return cell if cell.tzinfo is not None else cell.replace(tzinfo=zone)
    if isinstance(cell, date):
        return datetime.combine(cell, time(), tzinfo=zone)
    clock = _clock(cell)
    if clock is not None:
        if day is None:
            raise _RowError(f"{column}: {_text(cell)} is a time of day; add a column date, or write the date too")
        return _later(_moment(day, "date", zone, day=None).replace(hour=0, minute=0), clock, column)
    text = _text(cell)
    if not text:
        raise _RowError(f"{column}: it is empty")
    if _SLASHED.match(text):
        raise _RowError(f"{column}: {text[:40]} can be read as day/month or month/day; write it like 2027-02-01 09:00")
    for form in _FORMS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=zone)
        except ValueError:
            continue
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise _RowError(f"{column}: {text[:40]!r} is not a time; write it like 2027-02-01 09:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)


def _later(at: datetime, by: timedelta, column: str, *, is_elapsed: bool = False) -> datetime:
    """A time moved on the clock of its zone, or by the time that elapses, which differ when the clocks change.

    Raises:
        _RowError: the calendar has no such time.
    """
    try:
        return at.astimezone(UTC) + by if is_elapsed else at + by
    except OverflowError:
        raise _RowError(f"{column}: it is not within the years 1 to {MAXYEAR}; correct the date or duration") from None


def _check_exists(at: datetime, column: str) -> None:
    """Refuse a time that the clocks of its zone skip. A day whose midnight they skip begins when they go on."""
    if at.time() == time.min:
        return
    shown = at.astimezone(UTC).astimezone(at.tzinfo)
    if shown.replace(tzinfo=None) != at.replace(tzinfo=None):
        raise _RowError(f"{column}: {at:%Y-%m-%d %H:%M} does not exist, the clocks go forward then; write another time")


def _is_clock(cell: Any) -> bool:
    return _clock(cell) is not None


def _clock(cell: Any) -> timedelta | None:
    if isinstance(cell, time):
        return timedelta(hours=cell.hour, minutes=cell.minute)
    found = _CLOCK.fullmatch(cell.strip()) if isinstance(cell, str) else None
    return None if found is None else timedelta(hours=int(found[1]), minutes=int(found[2]))


def _count(cell: Any) -> int | None:
    text = _text(cell)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number.is_integer() or number < 1:
        raise _RowError(f"gpus: {text[:40]!r} is not a whole number of GPUs, 1 or more")
    return int(number)


def _listed(cell: Any) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r"[,;\n]", _text(cell)) if part.strip())


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _calendar_rows(content: bytes, zone: ZoneInfo, time_zone: str | None) -> Iterator[BookingRow]:
    try:
        from icalendar import Calendar
    except ImportError:
        raise Unavailable("ICS needs an extra on the server: pip install 'aliquot[calendar]'") from None
    try:
        calendar = Calendar.from_ical(content)
        events = list(calendar.walk("VEVENT"))
    except Exception as error:  # of the library, for a file that is not a calendar
        raise InvalidRequest(
            f"content: this is not an iCalendar file ({type(error).__name__})", field="content"
        ) from None
    moved = {_text(event.get("uid")) for event in events if event.get("recurrence-id") is not None}
    for number, event in enumerate(events, start=1):
        summary = _text(event.get("summary"))
        try:
            _check_exceptions(event, moved)
            yield BookingRow(number=number, text=summary[:TEXT_CHARS_MAX], asked=_event(event, number, zone, time_zone))
        except _RowError as error:
            yield BookingRow(number=number, text=summary[:TEXT_CHARS_MAX], error=str(error))


def _check_exceptions(event: Any, moved: Container[str]) -> None:
    """Refuse a repeated event of which single dates were deleted, added or moved: it would be booked at wrong times."""
    if event.get("exdate") is not None or event.get("rdate") is not None:
        raise _RowError(
            "single dates of it were deleted or added (EXDATE, RDATE), which is not supported; book it by hand"
        )
    if event.get("rrule") is not None and _text(event.get("uid")) in moved:
        raise _RowError("single dates of it were moved (RECURRENCE-ID), which is not supported; book it by hand")


def _event(event: Any, number: int, zone: ZoneInfo, time_zone: str | None) -> NewBooking:
    if _text(event.get("status")).upper() == "CANCELLED":
        raise _RowError("it is canceled in the calendar")
    try:
        starts, ends = event.decoded("dtstart"), event.decoded("dtend", None)
        lasts = event.decoded("duration", None)
        rule = event.get("rrule")
        repeats = None if rule is None else _rule(rule)
    except _RowError:
        raise
    except Exception:  # of the library, for what it could not read or has twice
        raise _RowError("its start, end or rule cannot be read") from None
    starts_at = _moment(starts, "DTSTART", zone, day=None)
    if ends is None and not isinstance(lasts, timedelta):
        raise _RowError("it has neither DTEND nor one DURATION like PT2H")
    if ends is None:  # an event of whole days ends at midnight
        ends_at = _later(starts_at, lasts, "DURATION", is_elapsed=isinstance(starts, datetime))
    else:
        ends_at = _moment(ends, "DTEND", zone, day=None)
    summary, more = _text(event.get("summary")), _text(event.get("description"))
    gpus = _GPUS.search(summary) or _GPUS.search(more)
    return NewBooking(
        name=summary[:60] or f"event-{number}",
        starts_at=starts_at,
        ends_at=ends_at,
        gpus=None if gpus is None else int(gpus[1]),
        repeats=repeats,
        time_zone=getattr(starts_at.tzinfo, "key", None) or time_zone,
    )


def _rule(rule: Any) -> str:
    """A recurrence rule as text. Without an end it would have no last window, so it is refused."""
    parts = {name.upper(): values for name, values in rule.items()}
    unknown = sorted(set(parts) - {*_RULE_FIELDS, "WKST"})
    if unknown or not {"UNTIL", "COUNT"} & set(parts):
        why = f"the part {unknown[0]} is not supported" if unknown else "it has no last day (UNTIL or COUNT)"
        raise _RowError(f"RRULE: {why}")
    return ";".join(f"{name}={','.join(_rule_value(one) for one in _several(parts[name]))}" for name in parts)


def _several(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def _rule_value(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y%m%dT%H%M%S}" if value.tzinfo is None else f"{value.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    return f"{value:%Y%m%d}" if isinstance(value, date) else str(value)
