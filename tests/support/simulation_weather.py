"""Random network behaviour of a run: message fates and delays. It becomes reliable at the end."""

from collections.abc import Callable
from random import Random

from aliquot_schema.errors import AliquotError
from simulation_loop import SeededLoop

FATES = ("lost", "unanswered", "repeated")
ODD = 0.06
"""Share of messages lost, unanswered or repeated."""


class Weather:
    """Drawn from one random stream."""

    def __init__(self, loop: SeededLoop, random: Random) -> None:
        self.is_fair = False
        """No more disturbances."""
        self._loop = loop
        self._random = random
        self._out_until_s: dict[str, float] = {}

    def happens(self, likely: float) -> bool:
        return not self.is_fair and self._random.random() < likely

    def fate(self) -> str:
        return self._random.choice(FATES) if self.happens(ODD) else "arrives"

    def delay_s(self, most: float = 0.2) -> float:
        """Usually short."""
        return self._random.random() ** 3 * most

    def later(self, call: Callable[[], object], *, seconds: float = 0.2) -> None:
        self.after(self.delay_s(seconds), call)

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        self._loop.call_outside(seconds, call)

    def outage_s(self, machine: str) -> float:
        """Cut a machine off; returns for how long."""
        seconds = 1.0 if self.is_fair else self._random.choice((0.5, 4.0, 12.0, 50.0)) * (0.5 + self._random.random())
        self._out_until_s[machine] = self._loop.time() + seconds
        return seconds

    def is_out(self, machine: str) -> bool:
        return not self.is_fair and self._loop.time() < self._out_until_s.get(machine, 0.0)

    def forgive(self, work: Callable[[], object]) -> bool:
        """Send without waiting for the answer; returns whether that was possible."""
        try:
            work()
        except AliquotError:
            return False
        return True
