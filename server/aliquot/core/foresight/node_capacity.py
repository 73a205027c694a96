"""Node capacity: the free capacity of a cluster as one integer per node, and placement of kernels on it.

It gives the same placements as `Placer`: a kernel goes to the node with the best score, the lowest row among equals,
and a gang to the nodes that hold most of the rest. `Nodes` stays the same in all futures, `NodeCapacity` is what is
held.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.foresight.node_states import Memo, NodeShape, NodeTable, RequestTables, TableMaker, shape_key
from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Request, Snapshot
from aliquot.core.placement.placement_state import PlacementState
from aliquot.core.placement.scoreboard import LAST, NOWHERE
from aliquot.core.placement.switches import next_switch
from aliquot.core.scheduler.cache import PassCache
from aliquot_schema.ids import NodeId
from aliquot_schema.sessions import Topology

Part = tuple[int, int]
"""A row of the cluster, and what a session adds to its state."""


class SessionParts(NamedTuple):
    """Where all kernels of a session are."""

    parts: tuple[Part, ...]
    milli: int
    """Accelerators."""
    rate_milli: int
    """What fair share charges for them."""


class PlacementNeeds:
    """What placement reads of a session: the request of a kernel, their number, and the nodes that are closed to it."""

    __slots__ = ("closed", "fills", "is_additive", "requires_switch", "size", "tables")

    def __init__(
        self, tables: RequestTables, *, size: int, closed: frozenset[int], requires_switch: bool = False
    ) -> None:
        self.tables: Final = tables
        self.size: Final = size
        self.requires_switch: Final = requires_switch and size > 1
        """Whether all kernels have to be on one switch."""
        self.closed: Final = closed
        """Rows of the cluster."""
        self.fills: Final[list[Memo[int]]] = []
        """[rows] how many kernels fit together, at most `size`; by state."""
        self.refresh()
        wanted = tables.wanted
        is_cut = wanted.is_share and (wanted.request.devices > 1 or tables.options.allow_fragmentation)
        self.is_additive: Final = size == 1 or not (is_cut or self.requires_switch)
        """Whether the session fits wherever enough kernels fit on all nodes together, and every release makes room."""

    def refresh(self) -> None:
        """Read the tables of the request again, after they were made anew."""
        self.fills[:] = [table.fills(self.size) for table in self.tables.by_row]

    def score(self, row: int, state: int) -> int:
        """The score of a row in a state."""
        if row in self.closed:
            return NOWHERE
        score = self.tables.by_row[row].scores[state]
        return score + self.tables.offsets[row] if score > LAST else score


class Nodes:
    """The open nodes in the rows of the cluster arrays, with all tables made for them."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, cache: PassCache, seed: int) -> None:
        """The agents are each on a node of its own, see `engine.unsupported`."""
        self.index: Final[AgentIndex] = cache.agent_index(snapshot.agents)
        self._policy = policy
        self._seed = seed
        self._state = PlacementState(self.index.open, {})
        self._maker = TableMaker(self._state, policy, snapshot.asked, seed=seed)
        self.rows: Final = {agent.node_id: row for row, agent in enumerate(self._state.agents)}
        self._layouts = [agent.layout for agent in self._state.agents]
        shapes: dict[tuple[object, ...], NodeShape] = {}
        self.shapes: Final = [
            shapes.setdefault(shape_key(agent.layout), NodeShape(agent, row=row, free=cache.free_milli))
            for row, agent in enumerate(self._state.agents)
        ]
        """[rows]"""
        self._tables: dict[tuple[Request, int | None, tuple[str, ...]], RequestTables] = {}
        self.switches: Final = self._state.switches
        self._spots: dict[tuple[RequestTables, int, frozenset[int], bool], PlacementNeeds] = {}

    def spot(self, row: PendingRow) -> PlacementNeeds:
        """The spot of a session; sessions that are placed alike share it."""
        key = row.request, row.gpu_memory_bytes, row.where.models
        tables = self._tables.get(key)
        if tables is None:
            wanted = self._state.requests(self._policy.allocation).of(row)
            tables = self._tables[key] = RequestTables(row, wanted, self._policy.allocation)
            self._fill(tables)
        allowed = {self.rows[self.index.open[number].node_id] for number in self.index.allowed(row)}
        closed = frozenset(number for number in range(len(self.shapes)) if number not in allowed)
        requires = row.where.topology is Topology.REQUIRE
        found = tables, row.cluster_size, closed, requires
        if found not in self._spots:
            self._spots[found] = PlacementNeeds(tables, size=row.cluster_size, closed=closed, requires_switch=requires)
        return self._spots[found]

    def mix(self, asked: Mapping[Request, int]) -> bool:
        """Score for another mix of requests from now on; whether that changes anything."""
        if not self._maker.follow(asked):
            return False
        for tables in self._tables.values():
            self._fill(tables)
        for spot in self._spots.values():
            spot.refresh()
        return True

    def states(self, used: Mapping[NodeId, Occupancy]) -> list[int]:
        """[rows] what is held."""
        return [
            shape.state(used.get(agent.node_id, {}), agent.layout)
            for shape, agent in zip(self.shapes, self._state.agents, strict=True)
        ]

    def parts(self, kernels: Iterable[KernelPlacement]) -> tuple[Part, ...]:
        """What kernels hold on open nodes."""
        found: dict[int, int] = {}
        for kernel in kernels:
            row = self.rows.get(kernel.node_id)
            if row is not None:
                layout = self._layouts[row]
                held = layout.held_with({}, kernel.spec)
                found[row] = found.get(row, 0) + self.shapes[row].state(held, layout)
        return tuple(found.items())

    def _fill(self, tables: RequestTables) -> None:
        tables.offsets = self._maker.offsets(tables.wanted, self.shapes)
        made: dict[int, NodeTable] = {}
        for shape in self.shapes:
            if shape.row not in made:
                made[shape.row] = NodeTable(shape, tables, self._maker)
        tables.by_row = [made[shape.row] for shape in self.shapes]


class _GangParts:
    """The kernels of one session while they are placed."""

    __slots__ = ("left", "milli", "parts", "rate_milli")

    def __init__(self, size: int) -> None:
        self.left = size
        """How many are not placed yet."""
        self.parts: Final[list[Part]] = []
        self.milli = 0
        self.rate_milli = 0

    def whole(self) -> SessionParts | None:
        """All of them; None if some are not placed."""
        return None if self.left else SessionParts(tuple(self.parts), self.milli, self.rate_milli)


class _Scores:
    """The scores of a spot on a capacity, and which changes of it they contain."""

    __slots__ = ("counts", "scores", "seen")

    def __init__(self, scores: list[int], counts: list[int], seen: int) -> None:
        self.scores = scores
        self.counts = counts
        """Of gangs alone."""
        self.seen = seen


class NodeCapacity:
    """What is held on each node; changed by `take` and `release`."""

    def __init__(self, nodes: Nodes, held: Sequence[int]) -> None:
        """
        Args:
            held: [rows] states.
        """
        self._nodes = nodes
        self.held: Final = list(held)
        self.log: Final[list[int]] = []
        """Rows, in the order of their changes. Its length is the version of the capacity."""
        self._scores: dict[PlacementNeeds, _Scores] = {}
        self._free_milli: int | None = None
        self._like: NodeCapacity | None = None
        """The capacity that this was copied from; its scores are reused."""
        self._since = 0
        """The version of that capacity which this was copied from."""

    def free_milli(self) -> int:
        """Free accelerators in total."""
        if self._free_milli is None:
            shapes = self._nodes.shapes
            self._free_milli = sum([shape.free_milli[state] for shape, state in zip(shapes, self.held, strict=True)])
        return self._free_milli

    def forget_scores(self) -> None:
        """Score all nodes anew."""
        self._scores.clear()
        self._like = None

    def copy(self) -> "NodeCapacity":
        """An independent copy."""
        other = self.at(len(self.log), held=self.held)
        other._free_milli = self._free_milli
        return other

    def at(self, version: int, *, held: Sequence[int]) -> "NodeCapacity":
        """An independent copy of an earlier version, with what was held then."""
        other = NodeCapacity(self._nodes, held)
        other._like, other._since = self, version
        return other

    def take(self, parts: Iterable[Part]) -> None:
        """Count a session as placed."""
        for row, delta in parts:
            self.put(row, self.held[row] + delta)

    def release(self, parts: Iterable[Part]) -> None:
        """Count a session as ended."""
        for row, delta in parts:
            self.put(row, self.held[row] - delta)

    def put(self, row: int, state: int) -> None:
        """Set the state of a node."""
        if self._free_milli is not None:
            free = self._nodes.shapes[row].free_milli
            self._free_milli += free[state] - free[self.held[row]]
        self.held[row] = state
        self.log.append(row)

    def count(self, spot: PlacementNeeds) -> int:
        """How many kernels fit on all nodes together, up to the size of the session on each of them."""
        closed = spot.closed
        return sum([spot.fills[row][state] for row, state in enumerate(self.held) if row not in closed])

    def has_room(self, spot: PlacementNeeds) -> bool:
        """Whether a session may fit; False if it does not."""
        if spot.size == 1:
            return max(self._known(spot).scores, default=NOWHERE) != NOWHERE
        return not spot.is_additive or self.count(spot) >= spot.size

    def place(self, spot: PlacementNeeds) -> SessionParts | None:
        """Where all kernels of a session fit now; None if they do not."""
        known = self._known(spot)
        if spot.size > 1:
            return self._place_gang(spot, known)
        scores, by_row = known.scores, spot.tables.by_row
        while (best := max(scores, default=NOWHERE)) != NOWHERE:
            row = scores.index(best)
            grant = by_row[row].grants[self.held[row]]
            if grant is not None:
                return SessionParts(((row, grant.delta),), grant.milli, grant.rate_milli)
            scores[row] = NOWHERE
        return None

    def place_beside(self, spot: PlacementNeeds, held: Mapping[int, int]) -> SessionParts | None:
        """`place` if something else is held on some rows."""
        if spot.size > 1:
            other = self.copy()
            for row, state in held.items():
                other.put(row, state)
            return other.place(spot)
        scores = self._known(spot).scores.copy()
        for row, state in held.items():
            scores[row] = spot.score(row, state)
        by_row = spot.tables.by_row
        while (best := max(scores, default=NOWHERE)) != NOWHERE:
            row = scores.index(best)
            grant = by_row[row].grants[held[row] if row in held else self.held[row]]
            if grant is not None:
                return SessionParts(((row, grant.delta),), grant.milli, grant.rate_milli)
            scores[row] = NOWHERE
        return None

    def _place_gang(self, spot: PlacementNeeds, known: _Scores) -> SessionParts | None:
        switches = self._nodes.switches
        placed = _GangParts(spot.size)
        if not (spot.requires_switch or switches.are_named):
            self._add(spot, known, placed)
            return placed.whole()
        scores, by_row = np.array(known.scores, dtype=np.int64), spot.tables.by_row
        unfit = [row for row in np.flatnonzero(scores == LAST).tolist() if by_row[row].grants[self.held[row]] is None]
        scores[unfit] = NOWHERE
        counts = np.where(scores == NOWHERE, 0, np.minimum(np.array(known.counts, dtype=np.int64), spot.size))
        capacities = switches.capacities(counts)
        is_loose = spot.tables.wanted.is_loose
        for switch in switches.tried(counts, scores, size=spot.size, requires=spot.requires_switch, is_loose=is_loose):
            alone = _GangParts(spot.size)
            self._add(spot, known, alone, without=switches.outside(switch))
            if not alone.left:
                return alone.whole()
        while not spot.requires_switch and placed.left:
            if (following := next_switch(capacities, left=placed.left)) is None:
                break
            capacities[following] = 0
            self._add(spot, known, placed, without=switches.outside(following))
        return placed.whole()

    def _add(self, spot: PlacementNeeds, known: _Scores, placed: "_GangParts", *, without: Iterable[int] = ()) -> None:
        """Place as many of the missing kernels as fit on the other rows than `without`."""
        scores, counts = known.scores.copy(), known.counts
        for other in without:
            scores[other] = NOWHERE
        while placed.left and (row := _best(scores, counts, left=placed.left)) is not None:
            table, before = spot.tables.by_row[row], self.held[row]
            state = before
            while placed.left and (grant := table.grants[state]) is not None:
                state += grant.delta
                placed.milli += grant.milli
                placed.rate_milli += grant.rate_milli
                placed.left -= 1
            if state == before:
                known.scores[row] = NOWHERE
            else:
                placed.parts.append((row, state - before))
            scores[row] = NOWHERE

    def _known(self, spot: PlacementNeeds) -> _Scores:
        """Present scores of a spot."""
        log, held = self.log, self.held
        known = self._scores.get(spot)
        if known is None:
            like = self._like
            if like is None:
                known = _Scores([NOWHERE] * len(held), [0] * len(held), len(log))
                self._score(spot, known, range(len(held)))
            else:
                base = like._known(spot)
                known = _Scores(base.scores.copy(), base.counts.copy(), len(log))
                self._score(spot, known, {*log, *like.log[self._since :]})
            self._scores[spot] = known
        elif known.seen < len(log):
            self._score(spot, known, log[known.seen :])
            known.seen = len(log)
        return known

    def _score(self, spot: PlacementNeeds, known: _Scores, rows: Iterable[int]) -> None:
        """Score some rows again."""
        held, tables, offsets, closed = self.held, spot.tables.by_row, spot.tables.offsets, spot.closed
        for row in rows:
            if row in closed:
                continue
            score = tables[row].scores[held[row]]
            known.scores[row] = score + offsets[row] if score > LAST else score
            if spot.size > 1:
                known.counts[row] = tables[row].counts[held[row]]


def place_on(spot: PlacementNeeds, held: Mapping[int, int]) -> SessionParts | None:
    """Where the only kernel of a session fits on some rows, in the states that they are in."""
    scored = {row: score for row, state in held.items() if (score := spot.score(row, state)) != NOWHERE}
    for row in sorted(scored, key=lambda row: (-scored[row], row)):
        grant = spot.tables.by_row[row].grants[held[row]]
        if grant is not None:
            return SessionParts(((row, grant.delta),), grant.milli, grant.rate_milli)
    return None


def _best(scores: Sequence[int], counts: Sequence[int], *, left: int) -> int | None:
    """The best row for the rest of a gang: among those that hold all of it, else among those that hold most of it."""
    if left == 1:
        best = max(scores, default=NOWHERE)
        return scores.index(best) if best != NOWHERE else None
    most = max((count for score, count in zip(scores, counts, strict=True) if score != NOWHERE), default=None)
    if most is None:
        return None
    enough = min(left, most)
    pool = [score if count >= enough else NOWHERE for score, count in zip(scores, counts, strict=True)]
    return pool.index(max(pool))
