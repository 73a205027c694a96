"""The place of a run: what outlives every process of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from simulation_clock import WallClock
from simulation_disk import Disk
from simulation_loop import Process, SeededLoop
from simulation_machine import Machine
from simulation_truth import Truth
from simulation_weather import Weather


class Chance:
    """Streams of chance, by name, all of one seed.

    What draws from one stream more often or less often changes nothing of what others draw: a run that leaves out a
    fault goes on with the same requests and the same other faults, which is what makes it worth shrinking.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def stream(self, name: str) -> Random:
        """The stream of that name, from its beginning."""
        return Random(f"{self._seed} {name}")


@dataclass
class Schedule:
    """What happens to a run from outside. What is left out is drawn and does not happen."""

    left_out: frozenset[str] = frozenset()
    happened: dict[str, str] = field(default_factory=dict)
    """The time and the words of each, by its name."""

    def happens(self, name: str, words: str, *, at_s: float) -> bool:
        """Whether it happens now; it is written down."""
        if name in self.left_out:
            return False
        self.happened[name] = f"{at_s:8.2f} s  {words}"
        return True


@dataclass
class SeatLock:
    """Who leads, where several servers share the database."""

    holder: str | None = None
    pinged_s: float = 0.0


@dataclass
class Place:
    """Its parts."""

    loop: SeededLoop
    chance: Chance
    wall: WallClock
    weather: Weather
    machines: dict[str, Machine]
    truth: Truth
    disk: Disk
    schedule: Schedule = field(default_factory=Schedule)
    seat: SeatLock = field(default_factory=SeatLock)
    on_decided: Callable[[Process], None] = lambda process: None
    """A leader's process has decided to place something, and has not begun to commit it."""
    _lives: int = field(default=0)

    def next_life(self) -> int:
        """Ids of a later life sort after those of the lives before."""
        self._lives += 1
        return self._lives
