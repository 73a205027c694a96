"""Field checks of requests: each returns the value as stored, or raises an error that names the field."""

import re
from typing import Final

from aliquot_schema.errors import InvalidRequest, LimitExceeded
from aliquot_schema.sessions import DURATION_S_MAX

RESERVED_PREFIX: Final = "ALIQUOT_"
RESERVED: Final = frozenset(
    {
        "CHECKPOINT_DIR",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "NVIDIA_VISIBLE_DEVICES",
        "RANK",
        "RESULT_DIR",
        "WORLD_SIZE",
    }
)
"""Variables that Aliquot sets in a kernel; a user's value would be overridden."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
NAME_CHARS_MAX: Final = 256


def check_own_variable(name: str, *, field: str) -> None:
    """Check the name of an environment variable of a user.

    Raises:
        InvalidRequest: not a variable name, or one that Aliquot sets.
    """
    if _VARIABLE.fullmatch(name) is None:
        raise InvalidRequest(f"{field}: {name[:64]!r} is not a variable name", field=field)
    if name.startswith(RESERVED_PREFIX) or name in RESERVED:
        raise InvalidRequest(
            f"{field}: {name[:64]} is set by Aliquot; leave it out, or choose another name", field=field
        )


def count(value: int, *, field: str, least: int, most: int) -> int:
    """A whole number in [least, most]."""
    if value < least:
        raise InvalidRequest(f"{field}: {value} is less than {least}", field=field)
    check_limit(value, field=field, most=most)
    return value


def check_limit(value: int, *, field: str, most: int, unit: str = "") -> None:
    """Check a number, or a count of `unit`, against its limit.

    Raises:
        LimitExceeded: it is above.
    """
    if value > most:
        amount = f"{value} {unit} are" if unit else f"{value} is"
        raise LimitExceeded(f"{field}: {amount} more than {most}", field=field, limit=most, actual=value)


def milliseconds(seconds: float | None, *, field: str, most_s: int = DURATION_S_MAX) -> int | None:
    """A duration in milliseconds, from seconds in (0, most_s]; None stays None."""
    if seconds is None:
        return None
    if not 0 < seconds <= most_s:
        raise InvalidRequest(f"{field}: {seconds} s is not between 0 and {most_s} s", field=field)
    return max(1, round(seconds * 1000))


def label(text: str | None, *, field: str) -> str | None:
    """A short name; None stays None."""
    if text is None:
        return None
    check_limit(len(text), field=field, most=NAME_CHARS_MAX, unit="characters")
    return plain(text, field=field)


def plain(text: str, *, field: str) -> str:
    """Text that processes and databases accept."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{field}: it contains an unpaired surrogate, which is not valid text", field=field
        ) from None
    if "\0" in text:
        raise InvalidRequest(f"{field}: it contains a NUL character", field=field)
    return text
