"""Scoreboard: scores of all rows per placement request; only rows that changed are scored again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from aliquot.core.placement.cluster_arrays import (
    CPU_COLUMN,
    HOST_COLUMNS,
    MEM_COLUMN,
    BoolArray,
    ClusterArrays,
    IntArray,
    NodeRow,
)
from aliquot.core.placement.strategy import Candidates, RequestClass, Strategy

NOWHERE: Final = np.iinfo(np.int64).min
"""Score of a row that the request does not fit."""
LAST: Final = NOWHERE + 1
"""Score of a row that may hold the request in another split than its class describes."""
MIX_A: Final = 0xBF58476D1CE4E5B9
MIX_B: Final = 0x94D049BB133111EB
MASK: Final = 2**64 - 1


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PlacementRequest:
    """A request class with the devices that it may use. Made once, compared by identity."""

    request: RequestClass
    usable: BoolArray | None = None
    """[rows, D] devices that it may use; None = all."""
    is_share: bool = False
    """Whether it asks for parts of devices."""
    is_loose: bool = False
    """Whether it may be split in another way than its class describes, so that only totals are binding."""


class Choice(NamedTuple):
    """The row, and if known the device, chosen for a request."""

    row: int
    column: int | None
    """Best device of a request for one device; None = not determined."""


@dataclass(slots=True)
class _ScoredRequest:
    scores: IntArray
    columns: IntArray
    seen: int
    """The cluster's clock at the last scoring; -1 = never."""
    is_nowhere: bool
    need: IntArray
    """[2 + D] free amounts that one kernel needs: CPU, memory, and its part of a device."""

    @classmethod
    def never(cls, request: RequestClass, cluster: ClusterArrays) -> "_ScoredRequest":
        """Nothing scored yet."""
        count, width = cluster.free.shape
        need = np.full(width, max(request.milli, 1))
        need[:HOST_COLUMNS] = request.cpu, request.mem
        return cls(np.full(count, NOWHERE), np.zeros(count, dtype=np.int64), -1, False, need)


class Scoreboard:
    """Scores of one strategy on one cluster."""

    def __init__(self, cluster: ClusterArrays, strategy: Strategy, *, seed: int) -> None:
        self.strategy: Final = strategy
        self._cluster = cluster
        self._seed = seed
        self._scored: dict[PlacementRequest, _ScoredRequest] = {}
        self._own: set[PlacementRequest] = set()
        """Requests whose scores are shared with no copy."""
        self._began = 0

    def begin(self, seed: int) -> None:
        """Restart the random numbers from a seed."""
        self._seed = seed
        self._began = self._cluster.clock

    def copy(self, cluster: ClusterArrays) -> "Scoreboard":
        """The same scores for a copy of the cluster; shared until one of the two changes them."""
        other = Scoreboard(cluster, self.strategy, seed=self._seed)
        other._scored = dict(self._scored)
        self._own.clear()
        return other

    def keep_nowhere(self, before: "Scoreboard") -> None:
        """Take over which requests fit nowhere from a board of the same cluster; it does not depend on the strategy."""
        for wanted, known in before._scored.items():
            if known.is_nowhere and self._cluster.freed_at <= known.seen:
                self._scored[wanted] = known

    def best(self, wanted: PlacementRequest, *, without: Sequence[int] = ()) -> Choice | None:
        """The row with the best score; None if the request fits nowhere (cached until something becomes free)."""
        scored = self._scored.get(wanted)
        if scored is not None and scored.is_nowhere and self._cluster.freed_at <= scored.seen:
            return None
        scores = self.scores(wanted)
        if without:
            scores = scores.copy()
            scores[list(without)] = NOWHERE
        row = int(scores.argmax()) if len(scores) else -1
        if row < 0 or scores[row] == NOWHERE:
            self._kept(wanted).is_nowhere = not without
            return None
        if self.strategy.is_random:
            tied = np.flatnonzero(scores == scores[row])
            row = int(tied[split_mix_64(self._seed, self._cluster.clock - self._began) % len(tied)])
        return self.choice(wanted, row)

    def scores(self, wanted: PlacementRequest) -> IntArray:
        """[rows] present scores of all rows. Read only."""
        cluster = self._cluster
        scored = self._scored.get(wanted)
        if scored is None or scored.seen < cluster.clock:
            scored = self._kept(wanted)
            self._score(wanted, scored, (cluster.changed_at > scored.seen).nonzero()[0])
            scored.seen = cluster.clock
            scored.is_nowhere = False
        return scored.scores

    def choice(self, wanted: PlacementRequest, row: int) -> Choice:
        """A scored row with its best device."""
        scored = self._scored[wanted]
        knows = wanted.request.devices == 1 and scored.scores[row] > LAST
        return Choice(row, int(scored.columns[row]) if knows else None)

    def counts(self, wanted: PlacementRequest) -> IntArray:
        """[rows] approximate number of such kernels that fit together; 0 = none."""
        cluster, request = self._cluster, wanted.request
        scores = self.scores(wanted)
        counts = np.where(scores == NOWHERE, 0, np.iinfo(np.int64).max)
        if request.cpu:
            counts = np.minimum(counts, cluster.cpu_free // request.cpu)
        if request.mem:
            counts = np.minimum(counts, cluster.mem_free // request.mem)
        if request.devices:
            free = cluster.dev_free if wanted.usable is None else np.where(wanted.usable, cluster.dev_free, 0)
            by_parts = (free // request.milli).sum(axis=1) // request.devices
            by_sum = np.maximum(free.sum(axis=1) // (request.milli * request.devices), 1)
            counts = np.minimum(counts, np.where(scores == LAST, by_sum, by_parts))
        return counts

    def refuse(self, wanted: PlacementRequest, row: int) -> None:
        """Exclude a row that refused the request until it changes."""
        self._kept(wanted).scores[row] = NOWHERE

    def column_when(self, wanted: PlacementRequest, row: int, now: NodeRow) -> int | None:
        """The best device of a row with contents `now`, for a request for one device."""
        if wanted.request.devices != 1:
            return None
        free, rows = np.zeros((1, self._cluster.free.shape[1]), dtype=np.int64), np.array([row])
        devices = now.devices if now.free_milli is None else now.free_milli
        free[0, : HOST_COLUMNS + len(devices)] = (now.cpu, now.mem, *devices)
        usable = free[:, HOST_COLUMNS:] >= max(wanted.request.milli, 1)
        if wanted.usable is not None:
            usable &= wanted.usable[rows]
        if not usable.any():
            return None
        return int(self.strategy.score(Candidates(rows, free, usable, self._cluster), wanted.request).columns[0])

    def _kept(self, wanted: PlacementRequest) -> _ScoredRequest:
        """The scores of a request, private to this board."""
        if wanted not in self._own:
            known = self._scored.get(wanted)
            self._own.add(wanted)
            self._scored[wanted] = (
                _ScoredRequest.never(wanted.request, self._cluster)
                if known is None
                else replace(known, scores=known.scores.copy(), columns=known.columns.copy())
            )
        return self._scored[wanted]

    def _score(self, wanted: PlacementRequest, scored: _ScoredRequest, rows: IntArray) -> None:
        free = self._cluster.free.take(rows, axis=0)
        is_enough = free >= scored.need
        usable = is_enough[:, HOST_COLUMNS:]
        if wanted.usable is not None:
            usable &= wanted.usable.take(rows, axis=0)
        has_host = fits = is_enough[:, CPU_COLUMN] & is_enough[:, MEM_COLUMN]
        if wanted.request.devices == 1:
            fits = has_host & np.logical_or.reduce(usable, axis=1)
        elif wanted.request.devices:
            fits = has_host & (np.add.reduce(usable, axis=1, dtype=np.int64) >= wanted.request.devices)
        fitting = fits.nonzero()[0]
        if len(fitting) < len(rows):
            scored.scores[rows] = NOWHERE
            if wanted.is_loose:
                devices = free[:, HOST_COLUMNS:]
                allowed = devices if wanted.usable is None else np.where(wanted.usable[rows], devices, 0)
                scored.scores[rows[has_host & (allowed.sum(axis=1) > 0)]] = LAST
            rows, free, usable = rows.take(fitting), free.take(fitting, axis=0), usable.take(fitting, axis=0)
        if len(rows):
            made = self.strategy.score(Candidates(rows, free, usable, self._cluster), wanted.request)
            scored.scores[rows] = made.scores
            scored.columns[rows] = made.columns


def split_mix_64(seed: int, number: int) -> int:
    """The 64-bit pseudo-random number of a seed and a counter (SplitMix64)."""
    mixed = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1B54A32D192ED03) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * MIX_A) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * MIX_B) & MASK
    return mixed ^ (mixed >> 31)
