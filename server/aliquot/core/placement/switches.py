"""Switches: which agents share a network switch, and on which switches a gang is placed.

An agent names its switch by the label `switch`, or `rack` where it has no such label. The kernels on an agent without
either reach each other over their node alone, so its node counts as a switch of its own.

Source: filling the largest switches first uses the fewest of them, since each holds at most as many kernels as the
larger one that it would replace. The last one is the smallest that holds the rest, as in best fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from aliquot.core.model.snapshot import AgentRow
from aliquot.core.placement.cluster_arrays import IntArray
from aliquot.core.placement.scoreboard import NOWHERE
from aliquot_schema.ids import natural_key

SWITCH_LABELS: Final = ("switch", "rack")
"""Labels that name the switch of an agent; the first that it has counts."""


def switch_of(agent: AgentRow) -> str:
    """The switch of an agent: a label with its value, or its node."""
    for label in SWITCH_LABELS:
        if value := agent.labels.get(label):
            return f"{label} {value}"
    return f"node {agent.node_id}"


def by_switch(agents: Iterable[AgentRow]) -> Mapping[str, Sequence[AgentRow]]:
    """Agents by switch, in the order of their first ones."""
    found: dict[str, list[AgentRow]] = {}
    for agent in agents:
        found.setdefault(switch_of(agent), []).append(agent)
    return found


class Switches:
    """The switches of some agents, numbered in natural order of their names."""

    def __init__(self, agents: Iterable[AgentRow]) -> None:
        names = [switch_of(agent) for agent in agents]
        self.names: Final = tuple(sorted(dict.fromkeys(names), key=natural_key))
        places = {name: number for number, name in enumerate(self.names)}
        self.number: Final[IntArray] = np.array([places[name] for name in names], dtype=np.int64)
        """[agents] the switch of each agent."""
        self.are_named: Final = any(not name.startswith("node ") for name in names)
        """Whether any agent names its switch; otherwise gangs are placed without regard to switches."""

    def outside(self, switch: int) -> list[int]:
        """Positions of the agents on other switches."""
        found: list[int] = np.flatnonzero(self.number != switch).tolist()
        return found

    def capacities(self, counts: IntArray) -> list[int]:
        """[switches] how many kernels fit on all agents of each together.

        Args:
            counts: [agents] how many fit on each.
        """
        found = [0] * len(self.names)
        for switch, count in zip(self.number.tolist(), counts.tolist(), strict=True):
            found[switch] += count
        return found

    def tried(self, counts: IntArray, scores: IntArray, *, size: int, requires: bool, is_loose: bool) -> Sequence[int]:
        """Switches to try a whole gang on: those on which one agent holds it, the best score first, then the fullest.

        Args:
            counts: [agents] how many kernels fit on each.
            scores: [agents] of the placement strategy.
            requires: whether nothing else will be tried; the largest switch is then the last one, for evidence.
            is_loose: whether counts may be too low, see `PlacementRequest`; all switches are then tried if one is
                required.
        """
        best: dict[int, int] = {}
        for place in np.flatnonzero(counts >= size).tolist():
            switch, score = int(self.number[place]), int(scores[place])
            best[switch] = max(score, best.get(switch, NOWHERE))
        capacities = self.capacities(counts)
        found = sorted(best, key=lambda switch: (-best[switch], switch))
        shared = [switch for switch, most in enumerate(capacities) if most >= size and switch not in best]
        found += sorted(shared, key=lambda switch: (capacities[switch], switch))
        if requires:
            some = (switch for switch, most in enumerate(capacities) if most)
            largest = sorted(some, key=lambda switch: -capacities[switch])
            found += [switch for switch in largest[: None if is_loose else 1] if switch not in found]
        return found


def next_switch(capacities: Sequence[int], *, left: int) -> int | None:
    """The next switch for the rest of a gang: the smallest that holds all of it, else the largest; None = none is left.

    Args:
        capacities: [switches] how many kernels fit on each; 0 for switches that are used up.
        left: kernels still to be placed.
    """
    enough = [(most, switch) for switch, most in enumerate(capacities) if most >= left]
    if enough:
        return min(enough)[1]
    most, switch = max(((most, -switch) for switch, most in enumerate(capacities)), default=(0, 0))
    return -switch if most else None
