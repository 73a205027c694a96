"""How answers are printed: as JSON, or as tables that a terminal cannot be tricked by."""

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from aliquot.client.generated.amounts import SlotAmount

WIDTH_OF_FILES: Final = 400
"""Columns where there is no terminal: nothing is cut off."""
_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def print_json(value: Any) -> None:
    """Print one JSON value on one line."""
    import msgspec

    print(msgspec.json.encode(value).decode(), flush=True)


def print_result(result: Any, *, words: str, as_json: bool) -> None:
    """Print what a command came to, as one JSON value or in words."""
    if as_json:
        print_json(result)
    else:
        print(words)


def console() -> "Console":
    """Where tables go."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDTH_OF_FILES)


def table(*columns: str) -> "Table":
    """An empty table; its first column, which names things, is never cut."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        made.add_column(column, no_wrap=place == 0, overflow="fold")
    return made


def cells(*values: object, style: str = "") -> "Iterable[Text]":
    """The cells of a row. Names are other people's: what would steer a terminal is made visible."""
    from rich.text import Text

    return [value if isinstance(value, Text) else Text(printable(value), style=style) for value in values]


def printable(value: object) -> str:
    """Text for one line; nothing for None."""
    text = "" if value is None else str(value)
    return (
        text
        if text.isprintable()
        else "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    )


def moment(at: datetime | None) -> str:
    """A moment in this machine's time zone, to the second."""
    return "" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def duration(seconds: float | None) -> str:
    """The two largest units: `2h 5m`."""
    if seconds is None:
        return ""
    left, parts = round(seconds), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def asked(slots: "Iterable[SlotAmount]", *, kernels: int = 1) -> str:
    """What a session asks: `4 x cpu=2 cuda.shares=0.5`."""
    each = " ".join(f"{one.slot}={one.amount}" for one in slots)
    return f"{kernels} x {each}" if kernels > 1 else each
