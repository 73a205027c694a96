"""Output: answers as JSON or as tables, with amounts and times in people's units and control characters replaced."""

import re
import sys
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aliquot.cli.connection.server import usage

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from aliquot.client.generated.scalars import SlotAmount


_DURATION_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_SLOT_UNITS: Final = {"cuda.device": "GPU", "cuda.shares": "GPU", "cpu": "CPU"}
_SIZES: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def print_json(value: Any) -> None:
    """Print one JSON value on one line."""
    print(json_text(value), flush=True)


def json_text(value: Any) -> str:
    """One JSON value on one line."""
    import msgspec

    return msgspec.json.encode(value).decode()


def print_result(result: Any, *, text: str, as_json: bool) -> None:
    """Print the result of a command, as one JSON value or as text."""
    if as_json:
        print_json(result)
    else:
        print(text)


def table(*columns: str) -> "Table":
    """An empty table; its first column, which has the names, is never cut."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        made.add_column(column, no_wrap=place == 0, overflow="fold")
    return made


def show_table(rows: "Table") -> None:
    """Print a table as standard output can take it: in a pipe one line for each row, with tabs between its cells."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False, markup=False).print(rows)
        return
    for line in zip(*((column.header, *column.cells) for column in rows.columns), strict=True):
        print("\t".join(map(printable, line)))


def cells(*values: object, style: str = "") -> "Iterable[Text]":
    """The cells of a row; control characters in other users' texts are replaced."""
    from rich.text import Text

    return [value if isinstance(value, Text) else Text(printable(value), style=style) for value in values]


def printable(value: object) -> str:
    """Text for one line, with control characters replaced; empty for None."""
    text = "" if value is None else str(value)
    return (
        text
        if text.isprintable()
        else "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    )


_CONTROLS: Final = {
    code: "^?" if code == 127 else f"^{chr(code + 64)}" if code < 32 else f"<{code:02X}>"
    for code in (*range(32), *range(127, 160))
    if chr(code) not in "\n\r\t"
}
"""Control characters as text, as `cat -v` and `less` write them: `^[` for ESC, `<9B>` for the 8-bit CSI."""


_ZEROS: Final = re.compile("\0{4,}")


def shown_controls(text: str) -> str:
    """Text with control characters made visible; line ends, tabs and carriage returns stay.

    Four zero bytes and more are shown as a hole: a file that was extended without being written has them.
    """
    return _ZEROS.sub(lambda found: hole_text(len(found[0])), text).translate(_CONTROLS)


def hole_text(size: int) -> str:
    """What is printed for a part of an output that was never written."""
    return f"[hole: {size:,} bytes]"


def moment(at: datetime | None) -> str:
    """A time in this machine's zone, to the second."""
    return "" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def count_text(count: int, one: str, several: str | None = None) -> str:
    """`1 session`, `2 sessions`; the plural is given where it has more than an `s`."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def duration(seconds: float | None) -> str:
    """The two largest units of a duration: `2h 5m`."""
    if seconds is None:
        return ""
    left, parts = round(seconds), []
    for unit, size in _DURATION_UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def request_text(slots: "Iterable[SlotAmount]", *, kernels: int = 1) -> str:
    """A request: `2 CPUs, 0.5 GPU`, or `4 x (2 CPUs, 0.5 GPU)` where it has several kernels."""
    each = ", ".join(amount_text(one.slot, one.amount) for one in slots)
    return f"{kernels} x ({each})" if kernels > 1 else each


def amount_text(slot: str, amount: str) -> str:
    """`2 GPUs`, `0.5 GPU`, `4 CPUs`, `9.4 GiB`; other slots as `2 tpu.device`."""
    from aliquot_schema.errors import AliquotError
    from aliquot_schema.resources.units import parse_size

    if slot in _SLOT_UNITS:
        number = amount.rstrip("0").rstrip(".") if "." in amount else amount
        return f"{number} {_SLOT_UNITS[slot]}{'' if number.startswith('0.') or number == '1' else 's'}"
    if slot != "mem":
        return f"{amount} {slot}"
    try:
        size = parse_size(amount)
    except AliquotError:
        return f"{amount} memory"
    unit, scale = next(
        ((unit, scale) for unit, scale in _SIZES if size >= scale), ("bytes", 1) if size else ("GiB", 2**30)
    )
    return f"{size / scale:.4g} {unit}"


E = TypeVar("E", bound=StrEnum)


def choice(kinds: type[E], text: str, *, of: str) -> E:
    """The member of an enumeration that a word names; `-` may be written for `_`.

    Args:
        of: the name of the option's meaning, like `role` or `order`.
    Raises:
        typer.Exit: no member has this name; the message lists all of them.
    """
    try:
        return kinds(text.replace("-", "_"))
    except ValueError:
        usage(f"{of} {text} does not exist; it is one of {', '.join(kinds)}")
