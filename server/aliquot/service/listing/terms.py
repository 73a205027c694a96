"""Terms: what a filter compares with which fields of `Session`, that are columns of its table, too."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from aliquot.service.projection_terms import microseconds_or_none
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.privacy import HIDDEN, Sight
from aliquot_schema.session_lists import SessionFilter, TimeRange

AMONG: Final[Mapping[str, str]] = {
    "ids": "id",
    "states": "state",
    "owners": "owner",
    "projects": "project",
    "pools": "pool",
    "priorities": "priority",
    "exit_codes": "exit_code",
}
EQUAL: Final = ("run_id", "name", "array_id")
WITHIN: Final[Mapping[str, str]] = {"queued_at": "queued_us", "started_at": "started_us", "ended_at": "ended_us"}
FAILURES: Final = "failure"
"""Compared by its code."""
SEARCH_CHARS_MAX: Final = 200
VALUES_MAX: Final = 1000
"""Of one list in a filter."""
COMPARED_MAX: Final = 100
"""Of a list whose values are compared one by one."""
_COMPARED: Final = frozenset({"failures", "devices"})


def among(where: SessionFilter) -> dict[str, tuple[object, ...]]:
    """By field: the values of which it has to have one."""
    several = {field: getattr(where, name) for name, field in AMONG.items() if getattr(where, name)}
    single = {name: (getattr(where, name),) for name in EQUAL if getattr(where, name) is not None}
    return several | single


def within(where: SessionFilter) -> Iterator[tuple[str, int | None, int | None]]:
    """Fields of times, with the first and the last microsecond; what has no such time is not within any bound."""
    for name, field in WITHIN.items():
        span: TimeRange | None = getattr(where, name)
        if span is not None and (span.since is not None or span.until is not None):
            yield field, microseconds_or_none(span.since), microseconds_or_none(span.until)


def asks_what_is_hidden(where: SessionFilter) -> bool:
    """Whether it compares what not everybody is shown: who could list by that would find it by guessing."""
    asked = {*among(where), *((FAILURES,) if where.failures else ())}
    return not asked.isdisjoint(HIDDEN[Sight.EVERYBODY])


def check(where: SessionFilter) -> None:
    """Refuse what costs too much.

    Raises:
        InvalidRequest: a text is too long, or a list.
    """
    if len(where.search or "") > SEARCH_CHARS_MAX:
        raise InvalidRequest(f"search: at most {SEARCH_CHARS_MAX} characters", field="search")
    for field in fields(where):
        value = getattr(where, field.name)
        most = COMPARED_MAX if field.name in _COMPARED else VALUES_MAX
        if isinstance(value, tuple) and len(value) > most:
            raise InvalidRequest(f"{field.name}: at most {most} values", field=field.name)
