"""Scalars (64-bit integers, times, priorities) and small shared types (amounts, grants, name-value pairs)."""

from datetime import UTC, datetime
from typing import Final, NewType

import strawberry
from strawberry.exceptions import StrawberryInputCoercionError
from strawberry.types.scalar import ScalarDefinition

from aliquot_schema.sessions import PRIORITIES, PRIORITY_FORM, Priority

BigInt = NewType("BigInt", int)
"""An integer of up to 64 bits; GraphQL's Int has 32."""
AnyPriority = NewType("AnyPriority", Priority)
"""A priority by name or number. A separate type, because Strawberry would publish `Priority` as an enum."""

_INT64: Final = 2**63


def parse_big_int(value: object) -> int:
    """Parse an integer, or its decimal digits as text."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
        value = int(value)
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise StrawberryInputCoercionError(f"BigInt takes an integer of up to 64 bits, not {_abbreviated(value)}.")
    return value


def format_time(value: datetime) -> str:
    """Format a time as RFC 3339 in UTC, ending in Z.

    Raises:
        ValueError: the time is naive.
    """
    if value.tzinfo is None:
        raise ValueError("naive datetime in an API result")
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def parse_time(value: object) -> datetime:
    """Parse RFC 3339; a time without an offset is rejected, not guessed."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise StrawberryInputCoercionError(
            f"DateTime takes RFC 3339 with an offset, like 2026-03-01T12:00:00Z, not {_abbreviated(value)}."
        )
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise StrawberryInputCoercionError(
            f"DateTime takes times from the year 1 to 9999 in UTC, not {_abbreviated(value)}."
        ) from None


def parse_priority(value: object) -> Priority:
    """Parse a name in any case, or a number, which may be text."""
    if isinstance(value, Priority):  # an input field's default
        return value
    written = str(value) if type(value) is int and 1 <= value <= len(Priority) else value
    found = PRIORITIES.get(written.strip().lower()) if isinstance(written, str) else None
    if found is None:
        raise StrawberryInputCoercionError(f"{_abbreviated(value)} is not a priority; give {PRIORITY_FORM}.")
    return found


def format_priority(value: Priority) -> str:
    """The priority's name."""
    return value.name.lower()


def _abbreviated(value: object) -> str:
    return repr(value)[:60]


SCALARS: Final[dict[object, ScalarDefinition]] = {
    BigInt: strawberry.scalar(
        name="BigInt",
        description="An integer of up to 64 bits, as a JSON number. Input may also be its decimal digits as a string.",
        parse_value=parse_big_int,
        serialize=int,
    ),
    datetime: strawberry.scalar(
        name="DateTime",
        description="A time in UTC as RFC 3339, with up to six decimal places of seconds.",
        specified_by_url="https://scalars.graphql.org/andimarek/date-time.html",
        parse_value=parse_time,
        serialize=format_time,
    ),
    AnyPriority: strawberry.scalar(
        name="Priority",
        description="Priority of a session: low (1), normal (2), high (3), critical (4). Input is the name or the "
        "number; output is the name.",
        parse_value=parse_priority,
        serialize=format_priority,
    ),
}


@strawberry.type(description="An amount of a slot.")
class SlotAmount:
    slot: str = strawberry.field(description="Name of the slot, like `cpu` or `cuda.shares`.")
    amount: str = strawberry.field(description="A decimal number, a size with a binary suffix, or `unlimited`.")


@strawberry.type(description="An amount on one device.")
class DeviceAmount:
    device_id: strawberry.ID = strawberry.field(description="The device.")
    amount: str = strawberry.field(description="A decimal number, or a size with a binary suffix.")


@strawberry.type(description="A kernel's allocation of one slot, by device.")
class SlotGrant:
    slot: str = strawberry.field(description="Name of the slot.")
    devices: list[DeviceAmount] = strawberry.field(description="The devices with the amount allocated on each.")


@strawberry.type(description="A tag, an environment variable or an attribute.")
class NameValue:
    name: str = strawberry.field(description="Name.")
    value: str = strawberry.field(description="Value.")
