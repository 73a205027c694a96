"""Scalars: 64-bit numbers, times and priorities."""

from datetime import UTC, datetime
from typing import Final, NewType

import strawberry
from strawberry.exceptions import StrawberryInputCoercionError
from strawberry.types.scalar import ScalarDefinition

from aliquot_schema.sessions import Priority

BigInt = NewType("BigInt", int)
"""An integer of up to 64 bits; GraphQL's Int has 32."""
AnyPriority = NewType("AnyPriority", Priority)
"""A priority that is written by name or by number; Strawberry would make an enum of `Priority` itself."""

_INT64: Final = 2**63


def parse_big_int(value: object) -> int:
    """Accept an integer, or its decimal digits as text."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
        value = int(value)
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise StrawberryInputCoercionError(f"BigInt takes a whole number of up to 64 bits, not {_shown(value)}.")
    return value


def format_time(value: datetime) -> str:
    """Write RFC 3339 in UTC, ending in Z.

    Raises:
        ValueError: the time is naive.
    """
    if value.tzinfo is None:
        raise ValueError("a time without a zone reached the API")
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def parse_time(value: object) -> datetime:
    """Read RFC 3339; a time without a zone is refused rather than guessed."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise StrawberryInputCoercionError(f"DateTime takes RFC 3339 with a zone, not {_shown(value)}.")
    return time.astimezone(UTC)


def parse_priority(value: object) -> Priority:
    """Accept a name in any case, or its number."""
    if isinstance(value, Priority):  # an input field's default
        return value
    if isinstance(value, str) and value.upper() in Priority.__members__:
        return Priority[value.upper()]
    if type(value) is int and 1 <= value <= len(Priority):
        return Priority(value)
    raise StrawberryInputCoercionError(
        f"Priority takes low, normal, high, critical or 1 to 4, not {_shown(value)}.",
    )


def format_priority(value: Priority) -> str:
    """Write a priority by its name."""
    return value.name.lower()


def _shown(value: object) -> str:
    return repr(value)[:60]


SCALARS: Final[dict[object, ScalarDefinition]] = {
    BigInt: strawberry.scalar(
        name="BigInt",
        description="A whole number of up to 64 bits, written as a JSON number. As input its digits as text do, too.",
        parse_value=parse_big_int,
        serialize=int,
    ),
    datetime: strawberry.scalar(
        name="DateTime",
        description="A moment in UTC as RFC 3339 writes it, with up to six digits after the second.",
        specified_by_url="https://scalars.graphql.org/andimarek/date-time.html",
        parse_value=parse_time,
        serialize=format_time,
    ),
    AnyPriority: strawberry.scalar(
        name="Priority",
        description="How urgent a session is: low (1), normal (2), high (3), critical (4). "
        "Input takes the name or the number; output is the name.",
        parse_value=parse_priority,
        serialize=format_priority,
    ),
}
