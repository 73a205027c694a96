"""Least waste: where the expected final waste of devices and of CPU grows least."""

from typing import Final

import numpy as np

from aliquot.core.placement.cluster import IntArray
from aliquot.core.placement.requests import Mix, RequestClass
from aliquot.core.placement.strategy import Candidates, Scores
from aliquot.core.placement.waste import waste_table

FIXED: Final = 2**40
"""One milli of waste, as scores count it."""
SOON: Final = 0.05
SOON_WEIGHT: Final = 0.1153
LATE: Final = 0.002
LATE_WEIGHT: Final = 0.4119
STRANDED_WEIGHT: Final = 0.0077
SURPLUS_WEIGHT: Final = 0.0375
ORDER_WEIGHT: Final = 3.2902
ORDER_COST: Final = round(ORDER_WEIGHT * 100 * FIXED)
CPU_PER_DEVICE: Final = 16_800
"""Micro-cores that one milli of a device is expected to need."""
CPU_FACTOR_MIN: Final = 4
CPU_FACTOR_MAX: Final = 64
"""A mix whose own CPU per device is off by a factor between these two goes by its own."""


class LeastWaste:
    """score = V(before) - V(after) - order * 100 * row / rows, in integers.

    V of a node is the expected waste of its devices, plus that of devices for which no CPU is left (stranded), or of
    CPU for which no device is left (surplus).
    """

    draws_lots: Final = False

    def __init__(self, mix: Mix, *, size_max: int) -> None:
        soon = waste_table(mix, ending=SOON, size_max=size_max)
        late = waste_table(mix, ending=LATE, size_max=size_max)
        waste = [round((SOON_WEIGHT * a + LATE_WEIGHT * b) * FIXED) for a, b in zip(soon, late, strict=True)]
        self._waste = np.array(waste, dtype=np.int64)
        self._cpu_per_device = cpu_per_device(mix)
        self._stranded = round(STRANDED_WEIGHT * FIXED / self._cpu_per_device)
        self._surplus = round(SURPLUS_WEIGHT * FIXED / self._cpu_per_device)
        self._gains: dict[int, tuple[IntArray, IntArray]] = {}

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """Of the devices that can take a share, the one that loses least, then the tightest, then the first."""
        rows, dev_free = candidates.rows, candidates.dev_free
        missing = self._cpu_per_device * np.add.reduce(dev_free, axis=1) - 1000 * candidates.cpu_free
        taken = self._cpu_per_device * request.devices * request.milli - 1000 * request.cpu
        scores = self._imbalance(missing) - self._imbalance(missing - taken)
        scores -= rows * (ORDER_COST // candidates.row_count)
        if not request.devices:
            return Scores(scores, rows)
        rank, ranked = self._gain(request.milli)
        liking = np.where(candidates.usable, rank.take(dev_free), -1)
        columns = liking.argmax(axis=1)
        if request.devices == 1:
            best = liking.take(np.arange(0, liking.size, liking.shape[1]) + columns)
            scores += ranked.take(best)
        else:
            best = np.sort(liking, axis=1)[:, -request.devices :]
            scores += np.add.reduce(ranked.take(best), axis=1)
        return Scores(scores, columns)

    def _imbalance(self, surplus: IntArray) -> IntArray:
        """The waste of what does not match: each milli of devices that is left wants `cpu_per_device` micro-cores, and
        so many of them are too many, or missing where it is negative."""
        cost: IntArray = np.maximum(surplus * -self._stranded, surplus * self._surplus)
        return cost

    def _gain(self, milli: int) -> tuple[IntArray, IntArray]:
        """The rank of a device by milli left, and by rank the waste that a part of `milli` takes away from it."""
        known = self._gains.get(milli)
        if known is None:
            gain = np.zeros_like(self._waste)
            gain[milli:] = self._waste[milli:] - self._waste[: len(self._waste) - milli]
            rank = np.empty_like(gain)
            order = np.lexsort((-np.arange(len(gain)), gain))
            rank[order] = np.arange(len(gain))
            known = self._gains[milli] = rank, gain[order]
        return known


def cpu_per_device(mix: Mix) -> int:
    """Micro-cores per milli of a device.

    The weights were found with a value above their mix's own, so that a small difference is no reason to leave it.
    Where hardly any CPU is asked for, or hardly any devices, the mix says nothing about the balance of the two.
    """
    cpu, milli = mix.cpu_and_milli
    own = 1000 * cpu // milli if milli else 0
    far_off = max(own, CPU_PER_DEVICE) > CPU_FACTOR_MIN * min(own, CPU_PER_DEVICE)
    is_telling = max(own, CPU_PER_DEVICE) <= CPU_FACTOR_MAX * min(own, CPU_PER_DEVICE)
    return own if far_off and is_telling else CPU_PER_DEVICE
