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


@dataclass
class SeatLock:
    """Who leads, where several servers share the database."""

    holder: str | None = None
    pinged_s: float = 0.0


@dataclass
class Place:
    """Its parts."""

    loop: SeededLoop
    random: Random
    wall: WallClock
    weather: Weather
    machines: dict[str, Machine]
    truth: Truth
    disk: Disk
    seat: SeatLock = field(default_factory=SeatLock)
    on_decided: Callable[[Process], None] = lambda process: None
    """A leader's process has decided to place something, and has not begun to commit it."""
    _lives: int = field(default=0)

    def next_life(self) -> int:
        """Ids of a later life sort after those of the lives before."""
        self._lives += 1
        return self._lives
