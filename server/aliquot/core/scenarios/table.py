"""Tables of a scenario file: every key is asked for by name, so that what nobody asks for is found and said."""

import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Final, NoReturn, TypeVar

import yaml

from aliquot_schema.errors import AliquotError, InvalidRequest

T = TypeVar("T")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
OVERDUE: Final = "overdue"
"""In place of a time: as soon as those end who are past their time."""
_NULL: Final = "tag:yaml.org,2002:null"


class Entry:
    """One place of a file, with its line."""

    def __init__(self, node: yaml.Node, *, file: str, path: str) -> None:
        self._node = node
        self._file = file
        self._path = path

    @property
    def line(self) -> int:
        """Counted from 1."""
        return self._node.start_mark.line + 1

    @property
    def is_table(self) -> bool:
        """Whether keys stand here."""
        return isinstance(self._node, yaml.MappingNode)

    def refuse(self, message: str) -> NoReturn:
        """Say what is wrong here.

        Raises:
            InvalidRequest: `file:line: key: message`.
        """
        where = f"{self._path}: " if self._path else ""
        raise InvalidRequest(f"{self._file}:{self.line}: {where}{message}", field=self._path or None)

    def text(self) -> str:
        """A word or a number, as it is written."""
        if not isinstance(self._node, yaml.ScalarNode) or self._node.tag == _NULL:
            self.refuse("a word or a number is to stand here")
        return str(self._node.value)

    def flag(self) -> bool:
        """`true` or `false`."""
        text = self.text().lower()
        if text not in ("true", "false"):
            self.refuse(f"{text[:32]!r} is neither true nor false")
        return text == "true"

    def whole(self) -> int:
        """A whole number >= 0."""
        text = self.text()
        if not (text.isascii() and text.isdigit() and len(text) <= 15):
            self.refuse(f"{text[:32]!r} is no whole number")
        return int(text)

    def duration_ms(self) -> int:
        """`90s`, `10m`, `1h30m`, `7d`; milliseconds."""
        text = self.text().replace(" ", "")
        if text == "0":
            return 0
        if len(text) > 32 or _DURATION.fullmatch(text) is None:
            self.refuse(f"{text[:32]!r} is no duration; write one like 90s, 10m, 1h30m or 7d")
        return int(sum(Decimal(number) * _UNITS_MS[unit] for number, unit in _DURATION_PART.findall(text)))

    def duration_text(self) -> str:
        """A duration in the one way in which `duration_text` writes it, or `overdue`."""
        return OVERDUE if self.text() == OVERDUE else duration_text(self.duration_ms())

    def one_of(self, words: Iterable[str]) -> str:
        """One word of a list."""
        text, words = self.text(), sorted(words)
        if text not in words:
            self.refuse(f"{text[:64]!r} is not known; there are {', '.join(words) or 'none'}")
        return text

    def items(self) -> list["Entry"]:
        """A list."""
        if not isinstance(self._node, yaml.SequenceNode):
            self.refuse("a list is to stand here")
        return [Entry(node, file=self._file, path=self._path) for node in self._node.value]

    def names(self) -> list[str]:
        """A list of words, or one word by itself."""
        if isinstance(self._node, yaml.ScalarNode):
            return [self.text()]
        return [item.text() for item in self.items()]

    def table(self) -> "Table":
        """A mapping of which the keys are known."""
        return Table(dict(self.pairs()), at=self)

    def pairs(self) -> Iterator[tuple[str, "Entry"]]:
        """A mapping of which the keys are names."""
        if not isinstance(self._node, yaml.MappingNode):
            self.refuse("`key: value` is to stand here")
        seen: dict[str, None] = {}
        for key_node, value_node in self._node.value:
            key = str(key_node.value)
            entry = Entry(value_node, file=self._file, path=f"{self._path}.{key}".lstrip("."))
            if key in seen:
                entry.refuse("stands here twice")
            seen[key] = None
            yield key, entry

    def checked(self, read: Callable[[], T]) -> T:
        """What `read` finds; what it refuses is said with the place."""
        try:
            return read()
        except AliquotError as error:
            self.refuse(error.message)


class Table:
    """A mapping; `half-life` and `half_life` are the same key."""

    def __init__(self, entries: dict[str, Entry], *, at: Entry) -> None:
        self._entries = {key.replace("-", "_"): entry for key, entry in entries.items()}
        self._asked: dict[str, None] = {}
        self.at = at

    def get(self, key: str, read: Callable[[Entry], T], default: T) -> T:
        """What stands under a key, as `read` reads it."""
        self._asked[key] = None
        entry = self._entries.get(key)
        return default if entry is None else read(entry)

    def maybe(self, key: str, read: Callable[[Entry], T]) -> T | None:
        """As `get`; None when the key is missing."""
        self._asked[key] = None
        entry = self._entries.get(key)
        return None if entry is None else read(entry)

    def need(self, key: str, read: Callable[[Entry], T]) -> T:
        """As `get`, for a key that must be there."""
        self._asked[key] = None
        entry = self._entries.get(key)
        if entry is None:
            self.at.refuse(f"`{key.replace('_', '-')}` is missing")
        return read(entry)

    def finish(self) -> None:
        """Refuse the first key that nobody asked for."""
        for key, entry in self._entries.items():
            if key not in self._asked:
                valid = ", ".join(sorted(name.replace("_", "-") for name in self._asked))
                entry.refuse(f"this key is not known; there are {valid}")


def duration_text(duration_ms: int) -> str:
    """`1h30m`; the inverse of `Entry.duration_ms`."""
    parts, rest = [], duration_ms
    for unit, length_ms in sorted(_UNITS_MS.items(), key=lambda item: -item[1]):
        count, rest = divmod(rest, length_ms)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0"


def documents(text: str, *, file: str) -> list[Entry]:
    """The documents of a YAML text, which `---` divides.

    Raises:
        InvalidRequest: it is no YAML; the message names file and line.
    """
    try:
        return [Entry(node, file=file, path="") for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise InvalidRequest(f"{file}:{line}: this is no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InvalidRequest(f"{file}:1: this is no YAML: {error}") from None
