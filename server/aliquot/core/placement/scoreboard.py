"""The scoreboard: a row of scores for each request class, in which only rows that changed are scored again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from aliquot.core.placement.cluster import (
    CPU_COLUMN,
    HOST_COLUMNS,
    MEM_COLUMN,
    BoolArray,
    Cluster,
    IntArray,
    NodeRow,
)
from aliquot.core.placement.requests import RequestClass
from aliquot.core.placement.strategy import Candidates, Strategy

NOWHERE: Final = np.iinfo(np.int64).min
"""The score of a row that a request does not fit on."""
LAST: Final = NOWHERE + 1
"""The score of a row that may hold the request in another shape than its class says."""
MIX_A: Final = 0xBF58476D1CE4E5B9
MIX_B: Final = 0x94D049BB133111EB
MASK: Final = 2**64 - 1


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Ask:
    """A request class as it is asked again and again; made once, known by identity."""

    request: RequestClass
    usable: BoolArray | None = None
    """[rows, D] devices that may be given at all; None = all of them."""
    is_share: bool = False
    """Whether it is for a part of a device, or of several."""
    is_loose: bool = False
    """Whether it may be spread in another way than its class says, so that only the sums are binding."""


class Choice(NamedTuple):
    """Where a request goes."""

    row: int
    column: int | None
    """The device of a request for one device; None = the strategy likes none of them most."""


@dataclass(slots=True)
class _Scored:
    scores: IntArray
    columns: IntArray
    seen: int
    """The cluster's clock when the scores were made; -1 = never."""
    is_nowhere: bool
    need: IntArray
    """[2 + D] what a row must have for one kernel: CPU, memory, and a part of each device that counts."""

    @classmethod
    def never(cls, request: RequestClass, cluster: Cluster) -> "_Scored":
        """Before anything was scored."""
        count, width = cluster.free.shape
        need = np.full(width, max(request.milli, 1))
        need[:HOST_COLUMNS] = request.cpu, request.mem
        return cls(np.full(count, NOWHERE), np.zeros(count, dtype=np.int64), -1, False, need)


class Scoreboard:
    """Keeps the scores of one strategy on one cluster."""

    def __init__(self, cluster: Cluster, strategy: Strategy, *, seed: int) -> None:
        self.strategy: Final = strategy
        self._cluster = cluster
        self._seed = seed
        self._scored: dict[Ask, _Scored] = {}
        self._own: set[Ask] = set()
        """Whose scores are shared with no twin."""
        self._began = 0

    def begin(self, seed: int) -> None:
        """Draw lots from here on as a new board would."""
        self._seed = seed
        self._began = self._cluster.clock

    def twin(self, cluster: Cluster) -> "Scoreboard":
        """The same scores, for the twin of the cluster; shared until either of the two changes them."""
        twin = Scoreboard(cluster, self.strategy, seed=self._seed)
        twin._scored = dict(self._scored)
        self._own.clear()
        return twin

    def best(self, ask: Ask, *, without: Sequence[int] = ()) -> Choice | None:
        """The row with the best score; None when the request fits nowhere.

        A request that fitted nowhere costs one look until something becomes free.
        """
        scored = self._scored.get(ask)
        if scored is not None and scored.is_nowhere and self._cluster.freed_at <= scored.seen:
            return None
        scores = self.scores(ask)
        if without:
            scores = scores.copy()
            scores[list(without)] = NOWHERE
        row = int(scores.argmax()) if len(scores) else -1
        if row < 0 or scores[row] == NOWHERE:
            self._kept(ask).is_nowhere = not without
            return None
        if self.strategy.draws_lots:
            tied = np.flatnonzero(scores == scores[row])
            row = int(tied[_drawn(self._seed, self._cluster.clock - self._began) % len(tied)])
        return self.choice(ask, row)

    def scores(self, ask: Ask) -> IntArray:
        """[rows] the scores of all rows as they are now; to be read only."""
        cluster = self._cluster
        scored = self._scored.get(ask)
        if scored is None or scored.seen < cluster.clock:
            scored = self._kept(ask)
            self._score(ask, scored, (cluster.changed_at > scored.seen).nonzero()[0])
            scored.seen = cluster.clock
            scored.is_nowhere = False
        return scored.scores

    def choice(self, ask: Ask, row: int) -> Choice:
        """A row that was scored, with the device that was found best there."""
        scored = self._scored[ask]
        knows = ask.request.devices == 1 and scored.scores[row] > LAST
        return Choice(row, int(scored.columns[row]) if knows else None)

    def counts(self, ask: Ask) -> IntArray:
        """[rows] about how many such kernels would fit side by side; 0 = not one."""
        cluster, request = self._cluster, ask.request
        scores = self.scores(ask)
        counts = np.where(scores == NOWHERE, 0, np.iinfo(np.int64).max)
        if request.cpu:
            counts = np.minimum(counts, cluster.cpu_free // request.cpu)
        if request.mem:
            counts = np.minimum(counts, cluster.mem_free // request.mem)
        if request.devices:
            free = cluster.dev_free if ask.usable is None else np.where(ask.usable, cluster.dev_free, 0)
            by_parts = (free // request.milli).sum(axis=1) // request.devices
            by_sum = np.maximum(free.sum(axis=1) // (request.milli * request.devices), 1)
            counts = np.minimum(counts, np.where(scores == LAST, by_sum, by_parts))
        return counts

    def refuse(self, ask: Ask, row: int) -> None:
        """The row was tried and did not hold the request: it is left out until it changes."""
        self._kept(ask).scores[row] = NOWHERE

    def column_when(self, ask: Ask, row: int, now: NodeRow) -> int | None:
        """The best device of a row for a request for one device, if the row stood as `now`."""
        if ask.request.devices != 1:
            return None
        free, rows = np.zeros((1, self._cluster.free.shape[1]), dtype=np.int64), np.array([row])
        devices = now.devices if now.free_milli is None else now.free_milli
        free[0, : HOST_COLUMNS + len(devices)] = (now.cpu, now.mem, *devices)
        usable = free[:, HOST_COLUMNS:] >= max(ask.request.milli, 1)
        if ask.usable is not None:
            usable &= ask.usable[rows]
        if not usable.any():
            return None
        return int(self.strategy.score(Candidates(rows, free, usable, self._cluster), ask.request).columns[0])

    def _kept(self, ask: Ask) -> _Scored:
        """The scores of a class, to be changed by this board alone."""
        if ask not in self._own:
            known = self._scored.get(ask)
            self._own.add(ask)
            self._scored[ask] = (
                _Scored.never(ask.request, self._cluster)
                if known is None
                else replace(known, scores=known.scores.copy(), columns=known.columns.copy())
            )
        return self._scored[ask]

    def _score(self, ask: Ask, scored: _Scored, rows: IntArray) -> None:
        free = self._cluster.free.take(rows, axis=0)
        is_enough = free >= scored.need
        usable = is_enough[:, HOST_COLUMNS:]
        if ask.usable is not None:
            usable &= ask.usable.take(rows, axis=0)
        has_host = fits = is_enough[:, CPU_COLUMN] & is_enough[:, MEM_COLUMN]
        if ask.request.devices == 1:
            fits = has_host & np.logical_or.reduce(usable, axis=1)
        elif ask.request.devices:
            fits = has_host & (np.add.reduce(usable, axis=1, dtype=np.int64) >= ask.request.devices)
        fitting = fits.nonzero()[0]
        if len(fitting) < len(rows):
            scored.scores[rows] = NOWHERE
            if ask.is_loose:
                devices = free[:, HOST_COLUMNS:]
                allowed = devices if ask.usable is None else np.where(ask.usable[rows], devices, 0)
                scored.scores[rows[has_host & (allowed.sum(axis=1) > 0)]] = LAST
            rows, free, usable = rows.take(fitting), free.take(fitting, axis=0), usable.take(fitting, axis=0)
        if len(rows):
            made = self.strategy.score(Candidates(rows, free, usable, self._cluster), ask.request)
            scored.scores[rows] = made.scores
            scored.columns[rows] = made.columns


def _drawn(seed: int, number: int) -> int:
    """A pseudo-random number of 64 bits (SplitMix64): the same for the same seed and number."""
    mixed = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1B54A32D192ED03) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * MIX_A) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * MIX_B) & MASK
    return mixed ^ (mixed >> 31)
