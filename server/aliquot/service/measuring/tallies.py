"""Tallies and histograms: written on the event loop, read from any thread.

Labels are given as values in the order of the names. Whoever counts sees to it that their values come from a closed
list, or from the cluster's own devices: a value that people can make up would grow the tally without end.
"""

from bisect import bisect_left
from typing import Final

Values = tuple[str, ...]

SHORT_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper edges for what the server itself does."""
LONG_S: Final = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0)
"""Upper edges for waits and run times of sessions: a second to a week."""


class Tally:
    """Sums that never fall, one for each combination of label values."""

    def __init__(self, *labels: str) -> None:
        self.labels: Final = labels
        self._sums: dict[Values, float] = {}

    def add(self, *values: str, amount: float = 1.0) -> None:
        """Count.

        Args:
            amount: >= 0.
        """
        self._sums[values] = self._sums.get(values, 0.0) + amount

    def begin(self, *values: str) -> None:
        """Show 0 until something is counted: a rate of what was never seen cannot be told from one that is missing."""
        self._sums.setdefault(values, 0.0)

    def sums(self) -> dict[Values, float]:
        """A copy."""
        return self._sums.copy()


class Histogram:
    """How often values fell between edges, and their sum."""

    def __init__(self, edges: tuple[float, ...], *labels: str) -> None:
        """
        Args:
            edges: upper ones, ascending; each takes what is equal to it.
        """
        self.labels: Final = labels
        self.edges: Final = edges
        self._counts: dict[Values, list[int]] = {}
        self._sums: dict[Values, float] = {}
        if not labels:
            self.begin()

    def begin(self, *values: str) -> None:
        """Show a combination of which nothing was seen yet."""
        if values not in self._counts:
            self._sums[values] = 0.0
            self._counts[values] = [0] * (len(self.edges) + 1)

    def observe(self, value: float, *values: str) -> None:
        """Take in one value."""
        if values not in self._counts:
            self.begin(*values)
        self._counts[values][bisect_left(self.edges, value)] += 1
        self._sums[values] += value

    def shown(self) -> list[tuple[Values, list[int], float]]:
        """Label values, how many fell below or on each edge (the last: all of them), and the sum of the values."""
        return [(values, _summed(list(counts)), self._sums[values]) for values, counts in self._counts.copy().items()]


def _summed(counts: list[int]) -> list[int]:
    total = 0
    return [total := total + count for count in counts]
