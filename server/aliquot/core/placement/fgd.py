"""Fragmentation gradient descent (FGD): place where the free capacity that typical requests cannot use grows least."""

from math import ceil, log
from typing import Final

import numpy as np

from aliquot.core.placement.cluster_arrays import WHOLE_MILLI, IntArray
from aliquot.core.placement.strategy import PRIOR_SHARES, Candidates, RequestClass, RequestMix, Scores

TYPICAL_PART: Final = 0.95
"""Typical classes are the most frequent ones that make up this part of all requests."""
TYPICAL_MAX: Final = 128
"""Limit on typical classes, for mixes of mostly unique requests."""
STEPS: Final = np.array([1000 * log(percent / (100 - percent)) for percent in range(1, 100)])
"""int(100 * sigmoid(x / 1000)) is the number of these values that are <= x."""


class Fgd:
    """score = int(100 * sigmoid((F(before) - F(after)) / 1000)).

    F(node) = sum over typical classes of frequency * unusable free capacity: all free capacity if the class cannot run
    on the node or needs no device, else the free capacity of devices with less than its part of one. Ties go to the
    last name.

    Source: Weng et al., Beware of Fragmentation, USENIX ATC 2023.
    """

    is_random: Final = False

    def __init__(self, mix: RequestMix, *, size_max: int) -> None:
        typical = _typical(mix)
        self._weight = np.array([count for _, count in typical], dtype=np.int64)
        self._cpu = np.array([request.cpu for request, _ in typical], dtype=np.int64)
        self._devices = np.array([request.devices for request, _ in typical], dtype=np.int64)
        milli = np.array([request.milli for request, _ in typical], dtype=np.int64)
        left = np.arange(size_max + 1)[:, None]
        self._can_use = ((left >= milli) & (milli > 0)).astype(np.int64)
        """[milli left, class] 1 = the class can use the device."""
        self._useless = np.where(self._can_use, 0, left)
        """[milli left, class] milli that the class cannot use."""

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """A share goes on the first device with the best score."""
        free = candidates.dev_free
        can_use, useless, total = self._can_use[free], self._useless[free], free.sum(axis=1)
        count, lost = can_use.sum(axis=1), useless.sum(axis=1)
        before = self._fragments(count, lost, total, cpu_free=candidates.cpu_free)
        cpu_left = candidates.cpu_free - request.cpu
        if request.devices == 1:
            left = np.where(candidates.usable, free - request.milli, free)
            after = self._fragments(
                count[:, None] - can_use + self._can_use[left],
                lost[:, None] - useless + self._useless[left],
                (total - request.milli)[:, None],
                cpu_free=cpu_left[:, None],
            )
            options = np.where(candidates.usable, self._percent(before[:, None] - after), -1)
            return Scores(_named(options.max(axis=1), candidates), options.argmax(axis=1))
        chosen = candidates.usable & (candidates.usable.cumsum(axis=1) <= request.devices)
        left = np.where(chosen, free - request.milli, free)
        after = self._fragments(
            self._can_use[left].sum(axis=1), self._useless[left].sum(axis=1), left.sum(axis=1), cpu_free=cpu_left
        )
        return Scores(_named(self._percent(before - after), candidates), np.zeros(len(total), dtype=np.int64))

    def _fragments(self, count: IntArray, lost: IntArray, total: IntArray, *, cpu_free: IntArray) -> IntArray:
        """F times the number of typical requests; `count` and `lost` have the classes as last dimension."""
        runs = (count >= self._devices) & (cpu_free[..., None] >= self._cpu) & (self._devices > 0)
        fragments: IntArray = np.where(runs, lost, total[..., None]) @ self._weight
        return fragments

    def _percent(self, gained: IntArray) -> IntArray:
        percent: IntArray = np.searchsorted(STEPS, gained / self._weight.sum(), side="right")
        return percent


def _named(percent: IntArray, candidates: Candidates) -> IntArray:
    return percent * candidates.row_count + candidates.name_rank


def _typical(mix: RequestMix) -> list[tuple[RequestClass, int]]:
    """The most frequent classes with their counts; without any request, one class of each size."""
    if not mix.counts:
        sizes = (*PRIOR_SHARES, WHOLE_MILLI)
        return [(RequestClass(cpu=0, mem=0, devices=1, milli=milli), 1) for milli in sizes]
    wanted = ceil(TYPICAL_PART * sum(count for _, count in mix.counts))
    typical = []
    for request, count in mix.counts[:TYPICAL_MAX]:
        if wanted <= 0:
            break
        typical.append((request, count))
        wanted -= count
    return typical
