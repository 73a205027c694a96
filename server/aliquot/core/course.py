"""A course: what is held on one node from now on, step by step."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

from aliquot.core.backfill import most
from aliquot_schema.ids import DeviceId

Held = Mapping[DeviceId, int]

NEVER_US: Final = 1 << 62


class Course:
    """A staircase. Mappings are replaced, never changed, so that what is the same is the very same."""

    def __init__(self, now_us: int, held: Held) -> None:
        self._times = [now_us]
        self._held = [held]
        """From each of the times to the next."""
        self._most: dict[tuple[int, int], Held] = {}

    def most(self, from_us: int, until_us: int) -> Held:
        """On every device, the most that is held at any time between."""
        first = bisect_right(self._times, from_us) - 1
        end = max(bisect_left(self._times, until_us), first + 1)
        if end == first + 1:
            return self._held[first]
        if (first, end) not in self._most:
            self._most[first, end] = reduce(most, self._held[first:end])
        return self._most[first, end]

    def change(
        self, amounts: Sequence[Held], *, from_us: int, until_us: int, sign: int
    ) -> Iterator[tuple[int, Held, Held]]:
        """Hold so much more for a while, or less; gives each time from which on it is different, before and after."""
        self._most.clear()
        first, end = self._cut(from_us), self._cut(until_us) if until_us < NEVER_US else len(self._times)
        changed = []
        for step in range(first, end):
            before = self._held[step]
            after = dict(before)
            for held in amounts:
                for device_id, amount in held.items():
                    after[device_id] = max(after.get(device_id, 0) + sign * amount, 0)
            self._held[step] = after
            changed.append((self._times[step], before, after))
        return iter(changed)

    def _cut(self, at_us: int) -> int:
        """The step that begins at a time, made if there is none."""
        step = bisect_left(self._times, at_us)
        if step == len(self._times) or self._times[step] != at_us:
            self._times.insert(step, at_us)
            self._held.insert(step, self._held[step - 1])
        return step
