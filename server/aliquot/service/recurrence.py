"""Recurrence: the windows of a repeated booking, by a recurrence rule of RFC 5545."""

import re
from calendar import isleap
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from aliquot.core.validation.fields import check_limit
from aliquot_schema.errors import InvalidRequest, Unavailable

AHEAD_S_MAX: Final = 366 * 86_400
"""How far ahead a booking may begin."""
SERIES_MAX: Final = 200
_DAY: Final = "(MO|TU|WE|TH|FR|SA|SU)"
_PART: Final = (
    rf"(FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)|INTERVAL=[1-9]\d{{0,2}}|COUNT=[1-9]\d{{0,3}}|WKST={_DAY}"
    rf"|UNTIL=\d{{8}}(T\d{{6}})?Z?|BYDAY=[+-]?\d{{0,2}}{_DAY}(,[+-]?\d{{0,2}}{_DAY}){{0,30}}"
    r"|(BYMONTHDAY|BYMONTH|BYSETPOS)=[+-]?\d{1,3}(,[+-]?\d{1,3}){0,30})"
)
_RULE: Final = re.compile(f"(RRULE:)?{_PART}(;{_PART}){{0,8}}", re.ASCII)
"""Recurrence rules that bookings know; the others can take dateutil minutes."""
_KNOWN: Final = (
    "use FREQ=DAILY, WEEKLY, MONTHLY or YEARLY with INTERVAL, COUNT, UNTIL, BYDAY, BYMONTHDAY, BYMONTH, BYSETPOS and "
    "WKST, like FREQ=WEEKLY;BYDAY=TU;UNTIL=20270301"
)


def occurrences(starts_at: datetime, rule: str, *, time_zone: str | None) -> list[datetime]:
    """Starts of a recurring booking within `AHEAD_S_MAX` of the first, in its time zone; at most `SERIES_MAX`.

    Raises:
        InvalidRequest: the rule or the zone is wrong, or there are too many.
        Unavailable: the extra `calendar` is not installed.
    """
    try:
        import dateutil.rrule  # noqa: F401
    except ImportError:
        raise Unavailable("recurring bookings need an extra: pip install 'aliquot[calendar]'") from None
    try:
        zone = ZoneInfo(time_zone or "UTC")
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(f"time_zone: {(time_zone or '')[:60]!r} is unknown", field="time_zone") from None
    asked = starts_at.astimezone(zone)
    first = asked.replace(tzinfo=None, fold=0)
    try:
        found = list(islice(_repeated(first, rule.upper(), zone=zone), SERIES_MAX + 1))
    except (ValueError, TypeError, IndexError):
        raise InvalidRequest(
            f"repeats: {rule[:80]!r} is no recurrence rule that bookings know; {_KNOWN}", field="repeats"
        ) from None
    check_limit(len(found), field="repeats", most=SERIES_MAX, unit="windows")
    if not found:
        raise InvalidRequest("repeats: the rule has no window within a year of the first start", field="repeats")
    return [asked if at == first else at.replace(tzinfo=zone) for at in found]  # an hour may come twice


def end_like(at: datetime, first_starts_at: datetime, first_ends_at: datetime) -> datetime:
    """The end of a window that starts at `at`: it has the length of the first window, or as many days if that one has
    whole days in the zone of `at`; a day may have 23 or 25 hours."""
    first, last = (one.astimezone(at.tzinfo) for one in (first_starts_at, first_ends_at))
    if first.time() == last.time() == time.min:
        return at + (last.date() - first.date())
    return at.astimezone(UTC) + (last.astimezone(UTC) - first.astimezone(UTC))


def _repeated(first: datetime, rule: str, *, zone: ZoneInfo) -> Iterator[datetime]:
    """Times of a rule within `AHEAD_S_MAX` of the first, in its zone.

    dateutil searches until the last year that it knows, which takes seconds where no date fits. So the search is in the
    last years that have the same days of the week and leap years; it ends after at most three decades.

    Raises:
        ValueError, TypeError, IndexError: the rule is wrong, or not known.
    """
    from dateutil.rrule import rrulestr

    if _RULE.fullmatch(rule) is None:
        raise ValueError(rule)
    last = first + timedelta(seconds=AHEAD_S_MAX)
    parts = rule.removeprefix("RRULE:").split(";")
    for until, is_utc in re.findall(r"UNTIL=(\d{8}(?:T\d{6})?)(Z?)", rule):
        at = datetime.fromisoformat(until if "T" in until else f"{until}T235959")
        last = min(last, at.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) if is_utc else at)
    later = first.replace(year=_same_calendar(first.year))
    shift = later - first
    known = rrulestr(";".join(part for part in parts if not part.startswith("UNTIL")), dtstart=later)
    try:
        for at in known:
            if at - shift > last:
                return
            yield at - shift
    except ValueError:
        return  # a week after the last year that dateutil knows


def _same_calendar(year: int) -> int:
    """The latest year from which three years have the days of the week and leap years of those from `year`."""
    return next(
        later
        for later in range(MAXYEAR - 3, MAXYEAR - 99, -1)
        if date(later, 1, 1).weekday() == date(year, 1, 1).weekday()
        and all(isleap(later + years) == isleap(year + years) for years in range(3))
    )
