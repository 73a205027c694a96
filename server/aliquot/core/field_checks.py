"""Checks of single fields of a request: each returns the value as it is kept, or says what is wrong with it."""

from typing import Final

from aliquot_schema.errors import InvalidRequest, LimitExceeded
from aliquot_schema.sessions import DURATION_S_MAX

NAME_CHARS_MAX: Final = 256


def count(value: int, *, field: str, least: int, most: int) -> int:
    """A whole number between two limits, both allowed."""
    if value < least:
        raise InvalidRequest(f"{field}: {value} is less than {least}", field=field)
    check_limit(value, field=field, most=most)
    return value


def check_limit(value: int, *, field: str, most: int, unit: str = "") -> None:
    """A number, or how many there are of something, against its limit."""
    if value > most:
        amount = f"{value} {unit} are" if unit else f"{value} is"
        raise LimitExceeded(f"{field}: {amount} more than {most}", field=field, limit=most, actual=value)


def milliseconds(seconds: float | None, *, field: str, most_s: int = DURATION_S_MAX) -> int | None:
    """A duration above zero."""
    if seconds is None:
        return None
    if not 0 < seconds <= most_s:
        raise InvalidRequest(f"{field}: {seconds} s is not between 0 and {most_s}", field=field)
    return max(1, round(seconds * 1000))


def label(text: str | None, *, field: str) -> str | None:
    """A short name that a user gave."""
    if text is None:
        return None
    check_limit(len(text), field=field, most=NAME_CHARS_MAX, unit="characters")
    return plain(text, field=field)


def plain(text: str, *, field: str) -> str:
    """Text that a process and a database can be given."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{field}: it holds half a surrogate pair, which is no text", field=field) from None
    if "\0" in text:
        raise InvalidRequest(f"{field}: it holds a NUL character", field=field)
    return text
