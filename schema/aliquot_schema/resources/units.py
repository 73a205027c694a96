"""Units: parsing and formatting of sizes (`2g`, `512m`, `1.5GiB`, plain bytes; 1024-based) and durations (`2h30m`)."""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Final

from aliquot_schema.errors import InvalidAmount, InvalidRequest

TEXT_CHARS_MAX: Final = 40
"""Longer amounts are rejected without parsing."""
EXACT: Final = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Exact for TEXT_CHARS_MAX digits times every scale: nothing is rounded."""
_SUFFIX: Final = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_SIZE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[bkmgtpe]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_BINARY_UNITS: Final = tuple(
    (unit, 1024**power) for unit, power in (("EiB", 6), ("PiB", 5), ("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1))
)
DURATION_FORM: Final = "write it like 90s, 15m, 2h30m or 1d12h"
"""Expected form of a duration, for error messages."""
_DAY_S: Final = 86_400
_DURATION_UNITS: Final = {
    "y": Decimal(365 * _DAY_S),
    "w": Decimal(7 * _DAY_S),
    "d": Decimal(_DAY_S),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
"""Seconds per unit, largest first."""
_NEXT_SMALLER: Final = {"w": ("d", 7), "d": ("h", 24), "h": ("m", 60), "m": ("s", 60)}
"""Unit of a final number without a unit, by the unit before it; and how many of it make one of the larger."""
_DURATION_S_LIMIT: Final = 10**12
"""30,000 years: longer durations overflow the clocks they are added to."""
_PLAIN_SECONDS: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?", re.ASCII)
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:ms|min|[ywdhms])\s*)+(?P<last>\d+)?", re.ASCII)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|[ywdhms])", re.ASCII)


def parse_size(text: str) -> int:
    """Parse a size into bytes.

    Args:
        text: a number >= 0, with an optional suffix of k, m, g, t, p, e (`2g`, `2G`, `2GB` and `2GiB` are the same).
    Raises:
        InvalidAmount: not a size, negative, or not a whole number of bytes.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidAmount(f"a size has at most {TEXT_CHARS_MAX} characters", slot="", amount=text[:40])
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidAmount(
            f"{text[:40]!r} is not a size; write bytes or a suffix, like 2g or 512m",
            slot="",
            amount=text[:40],
        )
    size = EXACT.multiply(Decimal(match["number"]), Decimal(1024 ** _SUFFIX[match["unit"].lower()]))
    if size != int(size):
        raise InvalidAmount(f"{text[:40]!r} is not a whole number of bytes", slot="", amount=text[:40])
    return int(size)


def format_size(size: int) -> str:
    """Format bytes with the largest exact suffix: 2147483648 -> `2g`, 1000 -> `1000`."""
    for suffix, power in (("e", 6), ("p", 5), ("t", 4), ("g", 3), ("m", 2), ("k", 1)):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{suffix}"
    return str(size)


def size_text(size: int) -> str:
    """Bytes as people write them, to a tenth: `9.4 GiB`, `512 MiB`, `1000 bytes` for less than 1 KiB."""
    unit, scale = next((known for known in _BINARY_UNITS if size >= known[1]), ("bytes", 1))
    return f"{round(size / scale, 1):g} {unit}"


def parse_duration(text: str, *, field: str | None = None) -> float:
    """Parse a duration into seconds.

    Args:
        text: a number of seconds, or numbers with units y (365 days), w, d, h, m or min, s and ms, each once, largest
            first. A final whole number without a unit is in the next smaller unit: `2h30` is `2h30m`.
        field: name of the input; prefixes the error message.
    Returns:
        Seconds, >= 0.
    Raises:
        InvalidRequest: the text has another form, or the final number exceeds its unit's range.
    """
    written = text.strip().lower()
    seconds = None
    if len(text) <= TEXT_CHARS_MAX:
        seconds = Decimal(written) if _PLAIN_SECONDS.fullmatch(written) else _with_units(written)
    if seconds is None or seconds > _DURATION_S_LIMIT:
        where = f"{field}: " if field else ""
        raise InvalidRequest(f"{where}{text[:TEXT_CHARS_MAX]!r} is not a duration; {DURATION_FORM}", field=field)
    return float(seconds)


def duration_seconds(value: float | str | None, *, field: str) -> float | None:
    """Seconds of a duration in a request: numbers are seconds, text is parsed by `parse_duration`, None stays None.

    Raises:
        InvalidRequest: see `parse_duration`.
    """
    return parse_duration(value, field=field) if isinstance(value, str) else value


def format_duration(seconds: float) -> str:
    """Format a duration to the millisecond, as `parse_duration` accepts it: 9000 -> `2 h 30 min`."""
    whole, ms = divmod(round(seconds * 1000), 1000)
    parts = []
    for unit, size in (("d", _DAY_S), ("h", 3600), ("min", 60)):
        count, whole = divmod(whole, size)
        parts += [f"{count} {unit}"] if count else []
    if whole or ms or not parts:
        parts.append(f"{whole + ms / 1000:g} s")
    return " ".join(parts)


def _with_units(written: str) -> Decimal | None:
    """Seconds of a duration with units; None if the text has another form."""
    found = _DURATION.fullmatch(written)
    if found is None:
        return None
    parts = [(number, unit.replace("min", "m")) for number, unit in _DURATION_PART.findall(written)]
    if found["last"] is not None:
        number, unit = parts[-1]
        smaller, count = _NEXT_SMALLER.get(unit, ("", 0))
        if "." in number or int(found["last"]) >= count:
            return None
        parts.append((found["last"], smaller))
    units = [unit for _, unit in parts]
    if units != [unit for unit in _DURATION_UNITS if unit in units]:
        return None
    return sum((EXACT.multiply(Decimal(number), _DURATION_UNITS[unit]) for number, unit in parts), Decimal(0))


def percent_text(percent: float) -> str:
    """A percentage for people: near 0 and near 100 with one decimal, so that a small part is not taken for none, nor a
    large one for all."""
    if 0 < percent < 0.05:
        return "< 0.1 %"
    if 99.95 <= percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if 10 <= percent <= 90 else f"{round(percent, 1):g} %"


def decimal_text(number: float) -> str:
    """Shortest decimal text of a number, without an exponent; `NaN` and `Infinity` as such."""
    return format(Decimal(repr(float(number))).normalize(), "f")
