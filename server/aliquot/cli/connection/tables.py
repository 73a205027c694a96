"""Tables that fit: a terminal gets short cells in its width, a pipe gets all of every cell, separated by tabs.

In a terminal a row is one line, or two: its note stands on a second, indented line. No cell is continued on another
line. Where the columns do not fit, those that may be shortened are, and then the least important ones are left out.
"""

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, TextIO

from msgspec import Struct
from typer import Option

from aliquot.cli.connection.output import moment, printable

FullIds = Annotated[bool, Option("--full-ids", help="Print whole ids in a terminal, too.")]

GAP: Final = "  "
INDENT: Final = "  "
ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
SHORT_ID_CHARS: Final = 8
NAME_COLUMNS_MIN: Final = 12
"""What is left of a long name before the reason beside it is shortened."""
NEEDED: Final = 100
"""The importance of a column that is never left out."""
_BOLD: Final = "\x1b[1m{}\x1b[0m"
_AGES: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_HOLDERS: Final = "; held by "
"""What stands before the names of holders in a reason."""
SESSION_ID_CHARS: Final = 40
"""Characters of a session's id, `ses_` and a UUID, without the index of a task."""
_SESSION_ID: Final = re.compile(r"ses_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:_\d+)?")


class BriefCell(Struct, frozen=True, dict=True):
    """A cell that is shorter in a terminal than in a pipe."""

    text: str
    full: str


class Column(Struct, frozen=True, dict=True):
    """A column of a table."""

    name: str
    brief: str | None = None
    """Its name in a terminal, where that is another."""
    importance: int = NEEDED
    """Columns of lower importance are left out first."""
    width_min: int | None = None
    """The width to which it may be shortened; None = it is not."""
    is_number: bool = False
    """Whether its cells stand at its right side."""
    in_terminal: bool = True
    in_pipe: bool = True


Cell = str | int | BriefCell | None


class Table:
    """Rows of cells, each with a note that only a terminal shows."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[tuple[tuple[Cell, ...], str]] = []

    def add(self, *cells: Cell, note: str = "") -> None:
        """Add a row: one cell for each column, in their order."""
        assert len(cells) == len(self._columns), "a row has one cell for each column"
        self._rows.append((cells, printable(note)))

    def in_pipe(self) -> list[str]:
        """The lines for a program: the names of the columns, then one line for each row."""
        shown = [place for place, column in enumerate(self._columns) if column.in_pipe]
        rows = [[_full(cells[place]) for place in shown] for cells, _ in self._rows]
        return ["\t".join(row) for row in ([self._columns[place].name for place in shown], *rows)]

    def in_terminal(self, width: int) -> list[str]:
        """The lines for a person, at most `width` columns wide; the first one has the names of the columns."""
        columns = [(place, column) for place, column in enumerate(self._columns) if column.in_terminal]
        texts = {place: [_text(cells[place]) for cells, _ in self._rows] for place, _ in columns}
        # A column without any value says nothing.
        columns = [(place, one) for place, one in columns if not self._rows or any(texts[place])]
        heads = {place: one.name if one.brief is None else one.brief for place, one in columns}
        natural = {place: max(map(columns_of, (heads[place], *texts[place]))) for place, _ in columns}
        widths = _fitted([(place, one) for place, one in columns], natural, width)
        kept = [(place, one) for place, one in columns if place in widths]

        def line(values: Mapping[int, str]) -> str:
            padded = (padded_to(values[place], widths[place], is_number=one.is_number) for place, one in kept)
            return GAP.join(padded).rstrip()

        lines = [line(heads)]
        for row, (_, note) in enumerate(self._rows):
            lines.append(line({place: texts[place][row] for place, _ in kept}))
            if note:
                lines.append(INDENT + shortened_reason(note, width - len(INDENT)))
        return lines

    def show(self) -> None:
        """Print the table as standard output can take it."""
        print("\n".join(self.shown()))

    def shown(self) -> list[str]:
        """The lines as standard output can take them."""
        if not sys.stdout.isatty():
            return self.in_pipe()
        head, *lines = self.in_terminal(terminal_size().columns)
        return [_BOLD.format(head) if has_colours(sys.stdout) else head, *lines]


def short_id(id: str, *, full: bool = False) -> BriefCell:
    """A session's id: in a terminal the last eight characters, with the index of a task.

    The end of an id is random, while sessions of the same minute begin alike.
    """
    stem, task = id[:SESSION_ID_CHARS], id[SESSION_ID_CHARS:]
    return BriefCell(id if full else stem[-SHORT_ID_CHARS:] + task, id)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """A text in which each id of a session is replaced by its name, or by its short id where it has none."""
    return _SESSION_ID.sub(lambda found: names.get(found[0]) or short_id(found[0]).text, text)


def age(at: datetime | None, *, now: datetime) -> BriefCell:
    """How long ago a time is, or how far ahead: `13m`; in a pipe the time."""
    if at is None:
        return BriefCell("", "")
    return BriefCell(rough_duration(abs((now - at).total_seconds())), moment(at))


def rough_duration(seconds: float) -> str:
    """A duration in its largest unit, and the next one below 10 hours or days: `13m`, `1h58m`, `12d`."""
    left, found = int(seconds), ""
    for unit, size in _AGES:
        count, left = divmod(left, size)
        if found:
            return found + (f"{count}{unit}" if count else "")
        if count:
            found = f"{count}{unit}"
            if unit not in "dh" or count >= 10:
                return found
    return found or "0s"


def present() -> datetime:
    """The time of this machine, for ages."""
    from aliquot.clock import SystemClock

    return datetime.fromtimestamp(SystemClock().now_us() / 1_000_000, UTC)


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes; wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def shortened(text: str, width: int) -> str:
    """A text in at most `width` columns, which ends with an ellipsis at the end of a word where something is missing.

    A single word that is too long is cut.
    """
    if columns_of(text) <= width:
        return text
    kept = text
    while kept and columns_of(kept) > width - 1:
        kept = kept[:-1]
    words = kept if text[len(kept)] == " " else kept.rpartition(" ")[0]
    return (words.rstrip(" ,;:.(") or kept) + ELLIPSIS if width > 0 else ""


def shortened_reason(text: str, width: int) -> str:
    """A reason in at most `width` columns, which names at least the first holder where it has holders.

    Further holders are left out first. Then a long name is cut. Last, what stands before the holders is shortened, to
    half of the width at most.
    """
    head, found, holders = text.partition(_HOLDERS)
    if not found or columns_of(text) <= width:
        return shortened(text, width)
    named = re.split(r", | and (?=\d+ more)", holders)
    for count in range(len(named) - 1, 0, -1):
        fitting = f"{head}{found}{', '.join(named[:count])}{ELLIPSIS}"
        if columns_of(fitting) <= width:
            return fitting
    first = named[0] if len(named) == 1 else named[0] + ELLIPSIS
    if width - columns_of(head + found) >= NAME_COLUMNS_MIN:
        return head + found + shortened(first, width - columns_of(head + found))
    before = found.removeprefix(";")
    kept = shortened(head, max(width // 2, width - columns_of(before + first)))
    before = before if kept.endswith(ELLIPSIS) else found
    return kept + before + shortened(first, width - columns_of(kept + before))


def padded_to(text: str, width: int, *, is_number: bool = False) -> str:
    """A text in exactly `width` columns."""
    fitting = shortened(text, width)
    padding = " " * (width - columns_of(fitting))
    return padding + fitting if is_number else fitting + padding


def terminal_size() -> os.terminal_size:
    """Columns and lines of the terminal, or of `COLUMNS` and `LINES`."""
    return shutil.get_terminal_size()


def has_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal that colours may be written to, see no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _text(cell: Cell) -> str:
    return printable(cell.text if isinstance(cell, BriefCell) else cell)


def _full(cell: Cell) -> str:
    return printable(cell.full if isinstance(cell, BriefCell) else cell)


def _fitted(columns: Sequence[tuple[int, Column]], natural: Mapping[int, int], width: int) -> dict[int, int]:
    """The width of each column that is shown, by its place.

    Columns are left out, least important first, until the others fit at their minimum; these share what is left over.
    """
    kept = dict(columns)
    least = {
        place: natural[place] if one.width_min is None else min(natural[place], one.width_min) for place, one in columns
    }

    def total(widths: Mapping[int, int]) -> int:
        return sum(widths[place] for place in kept) + len(GAP) * (len(kept) - 1)

    while total(least) > width:
        place = min(kept, key=lambda place: (kept[place].importance, -place))
        if kept[place].importance >= NEEDED:
            break
        del kept[place]
    widths = {place: least[place] for place in kept}
    left = max(0, width - total(widths))
    wanting = sorted(
        (place for place in kept if widths[place] < natural[place]), key=lambda one: natural[one] - least[one]
    )
    for position, place in enumerate(wanting):
        # Equal parts of what is left over; what one does not need goes to the next ones.
        more = min(left // (len(wanting) - position), natural[place] - widths[place])
        widths[place] += more
        left -= more
    return widths
