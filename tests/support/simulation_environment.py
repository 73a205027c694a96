"""The state of a run that survives its processes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from simulation_clock import WallClock
from simulation_disk import Disk
from simulation_loop import Process, SeededLoop
from simulation_machine import Machine
from simulation_network_faults import NetworkFaults
from simulation_reference_model import ReferenceModel


class RandomStreams:
    """Named random streams of one seed.

    The number of draws from one stream does not affect other streams: a run that leaves out a fault
    keeps the same requests and other faults, which makes shrinking work.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def stream(self, name: str) -> Random:
        """A fresh stream by this name."""
        return Random(f"{self._seed} {name}")


@dataclass
class Schedule:
    """The external events of a run. Events left out are drawn but do not happen."""

    left_out: frozenset[str] = frozenset()
    happened: dict[str, str] = field(default_factory=dict)
    """The time and description of each, by name."""

    def happens(self, name: str, words: str, *, at_s: float) -> bool:
        """Whether it happens; if so it is recorded."""
        if name in self.left_out:
            return False
        self.happened[name] = f"{at_s:8.2f} s  {words}"
        return True


@dataclass
class LeaderLock:
    """The leader lock of servers that share a database."""

    holder: str | None = None
    pinged_s: float = 0.0


@dataclass
class Environment:
    """The parts of a run that stay when a server process ends."""

    loop: SeededLoop
    random_streams: RandomStreams
    wall_clock: WallClock
    network_faults: NetworkFaults
    machines: dict[str, Machine]
    model: ReferenceModel
    disk: Disk
    schedule: Schedule = field(default_factory=Schedule)
    leader_lock: LeaderLock = field(default_factory=LeaderLock)
    on_decided: Callable[[Process], None] = lambda process: None
    """A leader's process has decided to place something, and its commit has not begun."""
    _lives: int = field(default=0)

    def next_life(self) -> int:
        """Ids of a later life sort after those of earlier lives."""
        self._lives += 1
        return self._lives
