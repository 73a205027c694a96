"""Random network behaviour of a run: message fates and delays. It becomes reliable at the end."""

from collections.abc import Callable
from random import Random

from aliquot_schema.errors import AliquotError
from simulation_loop import SeededLoop

MESSAGE_FAULTS = ("lost", "unanswered", "repeated")
MESSAGE_FAULT_SHARE = 0.06
"""Share of messages lost, unanswered or repeated."""


class NetworkFaults:
    """Drawn from one random stream."""

    def __init__(self, loop: SeededLoop, random: Random) -> None:
        self.is_reliable = False
        """No more disturbances."""
        self._loop = loop
        self._random = random
        self._out_until_s: dict[str, float] = {}

    def happens(self, likely: float) -> bool:
        return not self.is_reliable and self._random.random() < likely

    def draw_outcome(self) -> str:
        return self._random.choice(MESSAGE_FAULTS) if self.happens(MESSAGE_FAULT_SHARE) else "arrives"

    def delay_s(self, most: float = 0.2) -> float:
        """Usually short."""
        return self._random.random() ** 3 * most

    def call_delayed(self, call: Callable[[], object], *, seconds: float = 0.2) -> None:
        self.call_after(self.delay_s(seconds), call)

    def call_after(self, seconds: float, call: Callable[[], object]) -> None:
        self._loop.call_outside(seconds, call)

    def cut_off(self, machine: str) -> float:
        """Cut a machine off; returns for how long."""
        seconds = (
            1.0 if self.is_reliable else self._random.choice((0.5, 4.0, 12.0, 50.0)) * (0.5 + self._random.random())
        )
        self._out_until_s[machine] = self._loop.time() + seconds
        return seconds

    def is_cut_off(self, machine: str) -> bool:
        return not self.is_reliable and self._loop.time() < self._out_until_s.get(machine, 0.0)

    def try_call(self, work: Callable[[], object]) -> bool:
        """Send without waiting for the answer; returns whether that was possible."""
        try:
            work()
        except AliquotError:
            return False
        return True
