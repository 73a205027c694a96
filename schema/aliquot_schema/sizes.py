"""Binary sizes as people write them: `2g`, `512m`, `1.5GiB`, plain bytes. Always 1024-based."""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Final

from aliquot_schema.errors import InvalidAmount

TEXT_CHARS_MAX: Final = 40
"""An amount longer than this is refused unread."""
EXACT: Final = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Wide enough for TEXT_CHARS_MAX digits times every scale: nothing is rounded away."""
_SUFFIX: Final = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_SIZE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[bkmgtpe]?)(?:i?b)?", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """Read a size in bytes.

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
    """Write bytes with the largest suffix that loses nothing: 2147483648 -> `2g`, 1000 -> `1000`."""
    for suffix, power in (("e", 6), ("p", 5), ("t", 4), ("g", 3), ("m", 2), ("k", 1)):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{suffix}"
    return str(size)
