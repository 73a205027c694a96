"""Least waste: place where the expected final waste of devices and of CPU grows least.

The waste of a partly used device is the expected part that stays unused while further shares arrive.
"""

from typing import Final

import numpy as np

from aliquot.core.placement.cluster_arrays import CPU_COLUMN, MEM_COLUMN, WHOLE_MILLI, IntArray
from aliquot.core.placement.strategy import Candidates, RequestClass, RequestMix, Scores

FIXED: Final = 2**40
"""Score of one milli of waste."""
SOON: Final = 0.05
SOON_WEIGHT: Final = 0.1153
LATE: Final = 0.002
LATE_WEIGHT: Final = 0.4119
STRANDED_WEIGHT: Final = 0.0077
"""Of devices for which no CPU is left."""
SURPLUS_WEIGHT: Final = 0.0375
"""Of CPU for which no device is left. Placements depend on the sum of the two weights alone: to exchange them adds the
same to the score of every node."""
ORDER_WEIGHT: Final = 3.2902
ORDER_COST: Final = round(ORDER_WEIGHT * 100 * FIXED)
CPU_PER_DEVICE: Final = 16_800
"""Micro-cores expected per milli of a device."""
CPU_FACTOR_MIN: Final = 4
CPU_FACTOR_MAX: Final = 64
"""A mix whose CPU per device differs from `CPU_PER_DEVICE` by a factor in this range uses its own value."""


def waste_table(mix: RequestMix, *, ending: float, size_max: int = WHOLE_MILLI) -> list[float]:
    """Expected waste in milli for each amount of milli left, from 0 to `size_max`.

    With r left, the next request is a share that fits, a whole device if r is one, or none (`ending`), which wastes r.
    B[r] = (sum of p_m * B[r - m] + ending * r) / (sum of p_m [+ p_whole] + ending).
    A device of several units counts as that many devices.

    Args:
        ending: weight of "no further request" relative to the frequencies; > 0.
    """
    shares: Final = mix.share_frequencies
    table = [0.0]
    for left in range(1, min(size_max, WHOLE_MILLI) + 1):
        waste = ending * left
        weight = ending + (mix.whole_frequency if left == WHOLE_MILLI else 0.0)
        for milli, frequency in shares:
            if milli > left:
                break
            waste += frequency * table[left - milli]
            weight += frequency
        table.append(waste / weight)
    for left in range(WHOLE_MILLI + 1, size_max + 1):
        table.append(table[left - WHOLE_MILLI] + table[WHOLE_MILLI])
    return table


class LeastWaste:
    """score = V(before) - V(after) - order * 100 * row / rows, in integers.

    V of a node is the expected waste of its devices, plus that of devices without CPU, or of CPU without
    devices.
    """

    is_random: Final = False

    def __init__(self, mix: RequestMix, *, size_max: int) -> None:
        soon = waste_table(mix, ending=SOON, size_max=size_max)
        late = waste_table(mix, ending=LATE, size_max=size_max)
        waste = [round((SOON_WEIGHT * a + LATE_WEIGHT * b) * FIXED) for a, b in zip(soon, late, strict=True)]
        self._waste = np.array(waste, dtype=np.int64)
        self._cpu_per_device = cpu_per_device(mix)
        self._stranded = round(STRANDED_WEIGHT * FIXED / self._cpu_per_device)
        self._surplus = round(SURPLUS_WEIGHT * FIXED / self._cpu_per_device)
        self._gains: dict[int, tuple[IntArray, IntArray]] = {}
        self._lacking_by_width: dict[int, IntArray] = {}
        self._table = tuple(waste), self._cpu_per_device

    def is_same(self, other: object) -> bool:
        """Whether another strategy gives the same scores."""
        return isinstance(other, LeastWaste) and self._table == other._table

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """A share goes on the device that loses least, then the tightest, then the first."""
        rows, dev_free = candidates.rows, candidates.dev_free
        taken = self._cpu_per_device * request.devices * request.milli - 1000 * request.cpu
        missing = candidates.free.dot(self._lacking(candidates.free.shape[1]))
        scores = self._imbalance(missing) - self._imbalance(missing - taken)
        scores -= rows * (ORDER_COST // candidates.row_count)
        if not request.devices:
            return Scores(scores, rows)
        rank, ranked = self._gain(request.milli)
        preference = np.where(candidates.usable, rank.take(dev_free), -1)
        columns = preference.argmax(axis=1)
        if request.devices == 1:
            best = preference.take(np.arange(0, preference.size, preference.shape[1]) + columns)
            scores += ranked.take(best)
        else:
            best = np.sort(preference, axis=1)[:, -request.devices :]
            scores += np.add.reduce(ranked.take(best), axis=1)
        return Scores(scores, columns)

    def _lacking(self, width: int) -> IntArray:
        """[2 + D] micro-cores lacking per unit that is free in each column."""
        lacking = self._lacking_by_width.get(width)
        if lacking is None:
            lacking = np.full(width, self._cpu_per_device, dtype=np.int64)
            lacking[[CPU_COLUMN, MEM_COLUMN]] = -1000, 0
            self._lacking_by_width[width] = lacking
        return lacking

    def _imbalance(self, missing: IntArray) -> IntArray:
        """Waste of unmatched devices and CPU.

        Args:
            missing: micro-cores lacking for the free devices at `cpu_per_device` each; negative = CPU without devices.
        """
        cost: IntArray = np.maximum(missing * self._stranded, missing * -self._surplus)
        return cost

    def _gain(self, milli: int) -> tuple[IntArray, IntArray]:
        """(rank of a device by milli left, waste removed by a part of `milli` by rank)."""
        known = self._gains.get(milli)
        if known is None:
            gain = np.zeros_like(self._waste)
            gain[milli:] = self._waste[milli:] - self._waste[: len(self._waste) - milli]
            rank = np.empty_like(gain)
            order = np.lexsort((-np.arange(len(gain)), gain))
            rank[order] = np.arange(len(gain))
            known = self._gains[milli] = rank, gain[order]
        return known


def cpu_per_device(mix: RequestMix) -> int:
    """Micro-cores per milli of a device.

    The weights were tuned with `CPU_PER_DEVICE`, which exceeds their own mix's value, so small differences keep it.
    A mix with hardly any CPU, or hardly any devices, says nothing about their balance and keeps it too.
    """
    cpu, milli = mix.cpu_and_milli
    own = 1000 * cpu // milli if milli else 0
    far_off = max(own, CPU_PER_DEVICE) > CPU_FACTOR_MIN * min(own, CPU_PER_DEVICE)
    is_meaningful = max(own, CPU_PER_DEVICE) <= CPU_FACTOR_MAX * min(own, CPU_PER_DEVICE)
    return own if far_off and is_meaningful else CPU_PER_DEVICE
