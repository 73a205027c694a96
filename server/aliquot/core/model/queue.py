"""Queue: pending sessions in the order of submission, with the numbers that policies compute on as columns, and why
they wait."""

from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from functools import cached_property, lru_cache
from itertools import compress
from typing import Final, Generic, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from aliquot.core.fairshare import CPU, ProjectUser
from aliquot.core.model.snapshot import PendingRow, PlacementConstraints, Request, request_milli
from aliquot.core.prediction import Workload
from aliquot_schema.ids import AgentId, PoolId, SessionId
from aliquot_schema.reasons import Verdict
from aliquot_schema.states import SessionState

IntArray = npt.NDArray[np.int64]
ObjectArray = npt.NDArray[np.object_]

UNKNOWN: Final = -1
"""An unknown duration in a column."""
QUEUED_US, PRIORITY, ESTIMATE_MS, LIMIT_MS, KIND, ACCOUNT, POOL, IS_PLAIN, LEAST_MILLI = range(9)
TASKS, CORES, WORKLOAD, KEPT_MS = range(9, 13)


Kind = tuple[Request, int, int | None, int | None, tuple[AgentId, ...], PlacementConstraints]
"""Request, kernels, kernels of a whole elastic gang, minimum GPU memory, excluded agents, constraints. Rows of one kind
are placed alike."""
Key = TypeVar("Key")


class Codes(Generic[Key]):
    """Numbers for keys in order of first use. Only grows, so that versions of a queue share it."""

    __slots__ = ("_numbers", "keys")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self._numbers: dict[Key, int] = {}

    def of(self, key: Key) -> int:
        """The number of a key; a new key gets the next one."""
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number


def kind_of(row: PendingRow) -> Kind:
    """Everything that decides where a row can be placed."""
    return row.request, row.cluster_size, row.kernels_max, row.gpu_memory_bytes, row.excluded_agents, row.where


class _AllCodes(NamedTuple):
    kinds: Codes[Kind]
    accounts: Codes[ProjectUser]
    pools: Codes[PoolId]
    workloads: Codes[Workload | None]


class Queue(Sequence[PendingRow]):
    """Rows sorted by (queued_us, session_id). Immutable; `changed` makes the next version.

    Two queues of the same rows lead to the same decisions, whatever versions they derive from: numbers of kinds and
    accounts may differ, but only serve grouping.
    """

    __slots__ = ("_codes", "_table", "names", "rows")

    def __init__(self, rows: tuple[PendingRow, ...], table: IntArray, names: ObjectArray, codes: _AllCodes, /) -> None:
        self.rows = rows
        self.names = names
        """[rows] session ids. Read only."""
        self._table = table
        self._codes = codes

    @classmethod
    def of(cls, rows: Iterable[PendingRow]) -> "Queue":
        """The queue of rows in any order; a queue is returned as it is."""
        if isinstance(rows, Queue):
            return rows
        ordered = tuple(sorted(rows, key=_place))
        codes = _AllCodes(Codes(), Codes(), Codes(), Codes())
        return cls(ordered, _table(ordered, codes), _names(ordered), codes)

    def changed(self, *, left: Iterable[PendingRow] = (), joined: Iterable[PendingRow] = ()) -> "Queue":
        """The queue after some rows left and others joined."""
        rows, table, names = list(self.rows), self._table, self.names
        gone = [self._position(row) for row in left]
        if gone:
            stays = np.ones(len(rows), dtype=np.bool_)
            stays[gone] = False
            rows, table = list(compress(rows, stays.tolist())), np.compress(stays, table, axis=1)
            names = names[stays]
        arrived = sorted(joined, key=_place)
        if arrived:
            places = [bisect_left(rows, _place(row), key=_place) for row in arrived]
            table = np.insert(table, places, _table(arrived, self._codes), axis=1)
            names = np.insert(names, places, _names(arrived))
            for shift, (position, row) in enumerate(zip(places, arrived, strict=True)):
                rows.insert(position + shift, row)
        return Queue(tuple(rows), table, names, self._codes)

    def column(self, number: int) -> IntArray:
        """[rows] one of the columns above; times in microseconds, durations in milliseconds. Read only.

        `KIND` numbers the kinds of rows. `IS_PLAIN` is 1 for rows without dependency, hold, pause or other condition of
        their own. `LEAST_MILLI` is the minimum of accelerators that all kernels of a row take, `CORES` the cores of a
        row without accelerators, 0 for other rows. `TASKS` is the number of waiting tasks, 1 for a row without tasks.
        `WORKLOAD` numbers what similar runs are looked up by, `ACCOUNT` the pairs of project and user. `KEPT_MS` is the
        run time of earlier attempts that was not lost.
        """
        column: IntArray = self._table[number]
        return column

    def kinds(self) -> Sequence[Kind]:
        """Kinds of rows by the numbers in `KIND`; some may have no row left."""
        return self._codes.kinds.keys

    def pools(self) -> Sequence[PoolId]:
        """Pools by the numbers in `POOL`."""
        return self._codes.pools.keys

    def workloads(self) -> Sequence[Workload | None]:
        """Workloads by the numbers in `WORKLOAD`; None = run times are not predicted."""
        return self._codes.workloads.keys

    def accounts(self) -> Sequence[ProjectUser]:
        """Projects and users by the numbers in `ACCOUNT`; some may have no row left."""
        return self._codes.accounts.keys

    @overload
    def __getitem__(self, index: int) -> PendingRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PendingRow]: ...
    def __getitem__(self, index: int | slice) -> PendingRow | Sequence[PendingRow]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PendingRow]:
        return iter(self.rows)

    def _position(self, row: PendingRow) -> int:
        position = bisect_left(self.rows, _place(row), key=_place)
        assert self.rows[position].session_id == row.session_id, f"{row.session_id} is not in the queue"
        return position


class WaitingVerdicts(Mapping[SessionId, Verdict]):
    """Why sessions wait, in queue order. Kept as columns; a table by name is made when one is looked up.

    With thousands of waiting sessions, the table would take as long as the rest of a pass that places nothing.
    """

    def __init__(self, names: ObjectArray, line: IntArray, verdicts: ObjectArray) -> None:
        """
        Args:
            names: [rows] of the whole queue.
            line: [waiting] their positions in the queue, in the order of the pass.
            verdicts: [waiting]
        """
        self._names: Final = names
        self._line: Final = line
        self._verdicts: Final = verdicts

    def by_row(self, names: ObjectArray) -> list[Verdict | None] | None:
        """[rows] the verdicts for a queue that begins with the same sessions; None for any other queue."""
        count = len(self._names)
        if names is not self._names and (len(names) < count or not bool((names[:count] == self._names).all())):
            return None
        found = np.full(len(names), None, dtype=np.object_)
        found[self._line] = self._verdicts
        rows: list[Verdict | None] = found.tolist()
        return rows

    @cached_property
    def _by_name(self) -> dict[SessionId, Verdict]:
        return dict(zip(self._names[self._line].tolist(), self._verdicts.tolist(), strict=True))

    @override
    def __getitem__(self, name: SessionId) -> Verdict:
        return self._by_name[name]

    @override
    def __iter__(self) -> Iterator[SessionId]:
        return iter(self._by_name)

    @override
    def __len__(self) -> int:
        return len(self._line)

    @override
    def keys(self) -> KeysView[SessionId]:
        return self._by_name.keys()

    @override
    def values(self) -> ValuesView[Verdict]:
        return self._by_name.values()

    @override
    def items(self) -> ItemsView[SessionId, Verdict]:
        return self._by_name.items()


def _place(row: PendingRow) -> tuple[int, SessionId]:
    return row.queued_us, row.session_id


def _table(rows: Sequence[PendingRow], codes: _AllCodes) -> IntArray:
    """[columns, rows]"""
    columns: tuple[list[int], ...] = (
        [row.queued_us for row in rows],
        [row.priority for row in rows],
        [UNKNOWN if row.estimate_ms is None else row.estimate_ms for row in rows],
        [UNKNOWN if row.limit_ms is None else row.limit_ms for row in rows],
        [codes.kinds.of(kind_of(row)) for row in rows],
        [codes.accounts.of((row.project, row.owner)) for row in rows],
        [codes.pools.of(row.where.pool) for row in rows],
        [is_plain(row) for row in rows],
        [row.milli for row in rows],
        [1 if row.tasks is None else len(row.tasks) for row in rows],
        [_cores(row.request) * row.cluster_size for row in rows],
        [codes.workloads.of(row.workload) for row in rows],
        [row.kept_ms for row in rows],
    )
    return np.array(columns, dtype=np.int64)


def _names(rows: Sequence[PendingRow]) -> ObjectArray:
    names = np.empty(len(rows), dtype=np.object_)
    names[:] = [row.session_id for row in rows]
    return names


def first_places(numbers: IntArray) -> IntArray:
    """The first position of each number that occurs, by number; faster than sorting them.

    Args:
        numbers: [n] small numbers >= 0, as columns have them.
    """
    first = np.full(int(numbers.max(initial=-1)) + 1, UNKNOWN, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of equal numbers the last write counts
    return first[first >= 0]


@lru_cache(maxsize=4096)
def _cores(request: Request) -> int:
    """Cores that one kernel without accelerators takes."""
    return 0 if request_milli(request) else dict(request).get(CPU, 0)


def is_plain(row: PendingRow) -> bool:
    """Whether a row has no dependency, hold, pause or other condition of its own."""
    is_waiting = row.state is SessionState.QUEUED and not row.depends_on and row.not_before_us is None
    is_simple = row.falls_back_us is None and row.preempted_for is None
    return is_waiting and is_simple and row.tasks_startable > 0 and not row.is_immediate
