"""Tables of a scenario file: typed readers of YAML that report file, line and key; and the list `agents`.

Every key is read by name, so that unknown keys are found.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NoReturn, TypeVar

import yaml

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.model.snapshot import AgentRow
from aliquot_schema.errors import AliquotError, InvalidRequest
from aliquot_schema.ids import AgentId, DeviceId, NodeId, PoolId, SlotName
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.resources.units import parse_duration, parse_size
from aliquot_schema.sessions import DEFAULT_POOL

T = TypeVar("T")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NULL: Final = "tag:yaml.org,2002:null"
WHOLE: Final = SlotName("cuda.device")
SHARES: Final = SlotName("cuda.shares")
CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
GPUS_MAX: Final = 1024
CORES_MAX: Final = 4096


class Entry:
    """One YAML node with its file, line and path."""

    def __init__(self, node: yaml.Node, *, file: str, path: str) -> None:
        self._node = node
        self._file = file
        self._path = path

    @property
    def line(self) -> int:
        """Counted from 1."""
        return self._node.start_mark.line + 1

    @property
    def place(self) -> str:
        """`file:line`, for messages."""
        return f"{self._file}:{self.line}"

    @property
    def label(self) -> str:
        """`file:line: key`, for messages; without the key at the top of a document."""
        return f"{self.place}: {self._path}" if self._path else self.place

    @property
    def is_table(self) -> bool:
        """Whether the node is a mapping."""
        return isinstance(self._node, yaml.MappingNode)

    @property
    def is_scalar(self) -> bool:
        """Whether the node is a single value."""
        return isinstance(self._node, yaml.ScalarNode)

    def refuse(self, message: str) -> NoReturn:
        """Raise an error for this node.

        Raises:
            InvalidRequest: `file:line: key: message`.
        """
        raise InvalidRequest(f"{self.label}: {message}", field=self._path or None)

    def text(self) -> str:
        """A word or a number, as written."""
        if not isinstance(self._node, yaml.ScalarNode) or self._node.tag == _NULL:
            self.refuse("expected a word or a number")
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
            self.refuse(f"{text[:32]!r} is not a whole number")
        return int(text)

    def duration_ms(self) -> int:
        """A duration, see `parse_duration`; milliseconds."""
        return round(1000 * self.checked(lambda: parse_duration(self.text())))

    def duration_text(self) -> str:
        """A duration, normalized by `duration_text`."""
        return duration_text(self.duration_ms())

    def one_of(self, words: Iterable[str]) -> str:
        """One word of a list."""
        text, words = self.text(), sorted(words)
        if text not in words:
            self.refuse(f"{text[:64]!r} is unknown; use one of {', '.join(words) or 'none'}")
        return text

    def items(self) -> list["Entry"]:
        """A list."""
        if not isinstance(self._node, yaml.SequenceNode):
            self.refuse("expected a list")
        return [Entry(node, file=self._file, path=self._path) for node in self._node.value]

    def names(self) -> list[str]:
        """A list of words, or one word by itself."""
        if isinstance(self._node, yaml.ScalarNode):
            return [self.text()]
        return [item.text() for item in self.items()]

    def table(self) -> "Table":
        """A mapping with known keys."""
        return Table(dict(self.pairs()), at=self)

    def pairs(self) -> Iterator[tuple[str, "Entry"]]:
        """A mapping with free names as keys."""
        if not isinstance(self._node, yaml.MappingNode):
            self.refuse("expected `key: value`")
        seen: dict[str, None] = {}
        for key_node, value_node in self._node.value:
            key = str(key_node.value)
            entry = Entry(value_node, file=self._file, path=f"{self._path}.{key}".lstrip("."))
            if key in seen:
                entry.refuse("is given twice")
            seen[key] = None
            yield key, entry

    def checked(self, read: Callable[[], T]) -> T:
        """The result of `read`; its errors are raised for this node."""
        try:
            return read()
        except AliquotError as error:
            self.refuse(error.message)


class Table:
    """A mapping; `half-life` and `half_life` are the same key."""

    def __init__(self, entries: dict[str, Entry], *, at: Entry) -> None:
        self._entries = {key.replace("-", "_"): entry for key, entry in entries.items()}
        self._keys_read: dict[str, None] = {}
        self.at = at

    def get(self, key: str, read: Callable[[Entry], T], default: T) -> T:
        """The value of a key, read by `read`; `default` if the key is missing."""
        self._keys_read[key] = None
        entry = self._entries.get(key)
        return default if entry is None else read(entry)

    def maybe(self, key: str, read: Callable[[Entry], T]) -> T | None:
        """As `get`; None if the key is missing."""
        self._keys_read[key] = None
        entry = self._entries.get(key)
        return None if entry is None else read(entry)

    def need(self, key: str, read: Callable[[Entry], T]) -> T:
        """As `get`, for a required key."""
        self._keys_read[key] = None
        entry = self._entries.get(key)
        if entry is None:
            self.at.refuse(f"`{key.replace('_', '-')}` is missing")
        return read(entry)

    def finish(self) -> None:
        """Refuse the first key that was not read."""
        for key, entry in self._entries.items():
            if key not in self._keys_read:
                valid = ", ".join(sorted(name.replace("_", "-") for name in self._keys_read))
                entry.refuse(f"unknown key; use one of {valid}")


def duration_text(duration_ms: int) -> str:
    """`1h30m`; the inverse of `Entry.duration_ms`."""
    parts, rest = [], duration_ms
    for unit, length_ms in sorted(_UNITS_MS.items(), key=lambda item: -item[1]):
        count, rest = divmod(rest, length_ms)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0"


def documents(text: str, *, file: str) -> list[Entry]:
    """The documents of a YAML text, separated by `---`.

    Raises:
        InvalidRequest: invalid YAML; the message names file and line.
    """
    try:
        return [Entry(node, file=file, path="") for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise InvalidRequest(f"{file}:{line}: invalid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InvalidRequest(f"{file}:1: invalid YAML: {error}") from None
    except RecursionError:
        raise InvalidRequest(f"{file}: nested too deeply") from None


def agents(entry: Entry) -> tuple[AgentRow, ...]:
    """The list `agents`; each name once."""
    found: dict[AgentId, AgentRow] = {}
    for item in entry.items():
        agent = _agent(item)
        if agent.id in found:
            item.refuse(f"there are two agents {agent.id}")
        found[agent.id] = agent
    return tuple(found.values())


def pairs(entry: Entry) -> dict[str, str]:
    """A mapping of labels."""
    return {key: value.text() for key, value in entry.pairs()}


def size(entry: Entry) -> int:
    """Bytes, like `80g`."""
    return entry.checked(lambda: parse_size(entry.text()))


def _agent(entry: Entry) -> AgentRow:
    table = entry.table()
    name = table.need("name", Entry.text)
    model = table.get("model", Entry.text, "H100")
    memory_bytes = table.get("memory", size, 80 * 10**9)
    gpus = table.get("gpus", lambda found: _count(found, GPUS_MAX), 0)
    cores = table.get("cpu", lambda found: _count(found, CORES_MAX), 0)
    mem = table.get("mem", size, 0)
    devices = [_gpu(number, model=model, memory_bytes=memory_bytes) for number in range(gpus)]
    devices += [_host(CPU, number, budget=1) for number in range(cores)]
    devices += [_host(MEM, 0, budget=mem)] if mem else []
    agent = AgentRow(
        id=AgentId(name),
        node_id=NodeId(table.get("node", Entry.text, name)),
        layout=DeviceLayout.of(devices),
        is_open=table.get("open", Entry.flag, True),
        pool=PoolId(table.get("pool", Entry.text, str(DEFAULT_POOL))),
        labels=table.get("labels", pairs, {}),
    )
    table.finish()
    return agent


def _count(entry: Entry, most: int) -> int:
    count = entry.whole()
    if count > most:
        entry.refuse(f"{count} is more than {most}")
    return count


def _gpu(number: int, *, model: str, memory_bytes: int) -> Device:
    return Device(
        id=DeviceId(f"cuda{number}"),
        name=f"cuda{number}",
        kind="cuda",
        model=model,
        budget=MILLI,
        costs={WHOLE: MILLI, SHARES: 1},
        quanta={SHARES: 10},
        memory_bytes=memory_bytes,
    )


def _host(slot: SlotName, number: int, *, budget: int) -> Device:
    return Device(
        id=DeviceId(f"{slot}{number}"),
        name=f"{slot}{number}",
        kind=slot,
        model="",
        budget=budget,
        costs={slot: 1},
        quanta={},
        memory_bytes=0,
    )
