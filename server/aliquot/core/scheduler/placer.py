"""Placer: the placement strategy chooses agents for a session, the allocation exact devices on them."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import ShareStrategy as Spreading
from aliquot.core.model.agent_index import Scope, scope_of
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Snapshot
from aliquot.core.placement.cluster_arrays import Columns
from aliquot.core.placement.placement_state import PlacementState
from aliquot.core.placement.scoreboard import LAST, NOWHERE, Choice, PlacementRequest
from aliquot.core.placement.switches import next_switch
from aliquot.core.scheduler.booking_calendar import BookingCalendar
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot_schema.ids import NodeId, SessionId
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.sessions import Topology


class _GangKernels:
    """The kernels of one session while they are placed."""

    __slots__ = ("granted", "left", "used")

    def __init__(self, size: int) -> None:
        self.left = size
        """How many are not placed yet."""
        self.granted: Final[dict[int, list[ResourceSpec]]] = {}
        """By row of the cluster."""
        self.used: Final[dict[NodeId, Occupancy]] = {}
        """Usage of the nodes where it has kernels."""


class Placer:
    """Places one session after another on some free capacity; its arrays follow that capacity."""

    _state: PlacementState

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        capacity: FreeCapacity,
        seed: int,
        like: "Placer | None" = None,
        calendar: BookingCalendar | None = None,
        at_us: int = 0,
    ) -> None:
        """Args:
        like: a placer on similar capacity whose scores are reused; None = those of the cache.
        at_us: when the sessions would start, microseconds UTC.
        calendar: says what is booked from then on; None = nothing.
        """
        self._calendar = calendar
        self._at_us = at_us
        self._capacity = capacity
        self._takes_tightest = policy.allocation.strategy is Spreading.EVENLY
        start = capacity.cache.placement_state if like is None else like._state
        if start is None:
            start = capacity.cache.placement_state = PlacementState(capacity.agent_index.open, capacity.used)
        self._state = start.copy()
        self._state.follow(capacity.used)
        self._cluster: Final = self._state.cluster
        self._agents: Final = self._state.agents
        self._columns: Final = self._state.columns
        self._requests: Final = self._state.requests(policy.allocation)
        self._board: Final = self._state.board(policy.placement, snapshot.asked, seed=seed)
        self._closed: dict[Scope, tuple[int, ...]] = {}

    def keep(self) -> None:
        """Store the scores in the cache. Call it at the end of a pass, on the placer of the present capacity."""
        self._state.release_scores()
        self._capacity.cache.placement_state = self._state

    def place(self, row: PendingRow, *, as_if_unbooked: bool = False) -> tuple[KernelPlacement, ...]:
        """Place as many kernels as fit together, in order of rank; does not change the capacity, see `take`.

        A gang is placed on one agent that holds all of it, else repeatedly on the agent that holds most of the rest;
        the strategy breaks ties. Where agents name their switches, or the session requires one, that is done switch by
        switch, see `switches`. Ranks follow the natural order of the agents.
        """
        if self._calendar is not None and not as_if_unbooked:
            row = self._calendar.open_to(row, at_us=self._at_us)
        wanted, closed = self._requests.of(row), self._closed_to(row)
        requires = row.where.topology is Topology.REQUIRE
        if row.cluster_size > 1 and (requires or self._state.switches.are_named):
            return self._ranked(self._on_switches(row, wanted, closed=closed, requires=requires))
        kernels = _GangKernels(row.cluster_size)
        self._add(row, wanted, kernels, closed=closed)
        return self._ranked(kernels.granted)

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:
        """Count a session's kernels as placed."""
        self._capacity.take(session_id, kernels)
        specs: dict[NodeId, list[ResourceSpec]] = {}
        for kernel in kernels:
            specs.setdefault(kernel.node_id, []).append(kernel.spec)
        for node_id, granted in specs.items():
            self._state.take(node_id, granted, self._capacity.used_on(node_id))

    def _on_switches(
        self, row: PendingRow, wanted: PlacementRequest, *, closed: Sequence[int], requires: bool
    ) -> Mapping[int, Sequence[ResourceSpec]]:
        """Kernels on one switch if one holds them all, else on the fewest; with `requires` always on one."""
        self._refuse_unfit(row, wanted)
        switches, scores = self._state.switches, self._board.scores(wanted)
        is_open = scores != NOWHERE
        is_open[list(closed)] = False
        counts = np.where(is_open, np.minimum(self._board.counts(wanted), row.cluster_size), 0)
        capacities = switches.capacities(counts)
        most = _GangKernels(row.cluster_size)
        for switch in switches.tried(
            counts, scores, size=row.cluster_size, requires=requires, is_loose=wanted.is_loose
        ):
            kernels = _GangKernels(row.cluster_size)
            self._add(row, wanted, kernels, closed=[*closed, *switches.outside(switch)])
            if not kernels.left:
                return kernels.granted
            most = min(most, kernels, key=lambda one: one.left)
        if requires:
            return most.granted
        kernels = _GangKernels(row.cluster_size)
        while kernels.left and (number := next_switch(capacities, left=kernels.left)) is not None:
            capacities[number] = 0
            self._add(row, wanted, kernels, closed=[*closed, *switches.outside(number)])
        return kernels.granted

    def _refuse_unfit(self, row: PendingRow, wanted: PlacementRequest) -> None:
        """Exclude agents that may hold a kernel by their sums alone, and do not: the choice of switches would depend on
        which of them earlier passes have tried."""
        for number in np.flatnonzero(self._board.scores(wanted) == LAST).tolist():
            if not self._fill(row, wanted, Choice(number, None), used={}, most=1):
                self._board.refuse(wanted, number)

    def _add(
        self, row: PendingRow, wanted: PlacementRequest, kernels: "_GangKernels", *, closed: Sequence[int]
    ) -> None:
        """Place as many of the missing kernels as fit on the rows that are not closed."""
        closed, used = list(closed), kernels.used
        while kernels.left and (choice := self._next(wanted, closed=closed, left=kernels.left)) is not None:
            node_id = self._agents[choice.row].node_id
            is_untouched = node_id not in used
            specs = self._fill(row, wanted, choice, used=used, most=kernels.left)
            if specs or not is_untouched:
                kernels.granted[choice.row] = specs
                kernels.left -= len(specs)
                closed.append(choice.row)
            else:
                self._board.refuse(wanted, choice.row)

    def _closed_to(self, row: PendingRow) -> tuple[int, ...]:
        """Rows of the agents that a session may not be placed on."""
        scope = scope_of(row)
        closed = self._closed.get(scope)
        if closed is None:
            open_agents = self._capacity.open_agents(row)
            if len(open_agents) == len(self._agents):
                closed = ()
            else:
                allowed = {agent.id for agent in open_agents}
                closed = tuple(number for number, agent in enumerate(self._agents) if agent.id not in allowed)
            self._closed[scope] = closed
        return closed

    def _next(self, wanted: PlacementRequest, *, closed: Sequence[int], left: int) -> Choice | None:
        """The best agent among those that hold all remaining kernels, else among those that hold most of them."""
        if left == 1:
            return self._board.best(wanted, without=closed)
        scores = self._board.scores(wanted)
        is_open = scores != NOWHERE
        is_open[closed] = False
        if not is_open.any():
            return None
        counts = np.where(is_open, self._board.counts(wanted), -1)
        pool = is_open & (counts >= min(left, counts.max()))
        return self._board.choice(wanted, int(np.where(pool, scores, NOWHERE).argmax()))

    def _fill(
        self, row: PendingRow, wanted: PlacementRequest, choice: Choice, *, used: dict[NodeId, Occupancy], most: int
    ) -> list[ResourceSpec]:
        """Place up to `most` kernels on one agent; `used` is the usage of nodes where the session has kernels."""
        agent, columns = self._agents[choice.row], self._columns[choice.row]
        held = used.get(agent.node_id, self._capacity.used_on(agent.node_id))
        column = choice.column if agent.node_id not in used else self._column(wanted, choice.row, held)
        specs: list[ResourceSpec] = []
        takes_column = wanted.is_share and self._takes_tightest and not columns.rivals
        while (
            spec := self._grant(row, agent, columns, held=held, column=column if takes_column else None)
        ) is not None:
            specs.append(spec)
            if len(specs) == most:
                break
            held = used[agent.node_id] = agent.layout.held_with(held, spec)
            column = self._column(wanted, choice.row, held)
        return specs

    def _column(self, wanted: PlacementRequest, row: int, held: Occupancy) -> int | None:
        return self._board.column_when(wanted, row, self._columns[row].row(self._agents[row].id, held))

    def _grant(
        self, row: PendingRow, agent: AgentRow, columns: Columns, *, held: Occupancy, column: int | None
    ) -> ResourceSpec | None:
        """Exact devices for one kernel: a share goes on the best-scored column if the allocation accepts it."""
        if column is not None:
            spec = self._capacity.try_kernel(row, agent, held, preferred=columns.accelerators[column].id)
            if spec is not None:
                return spec
        return self._capacity.try_kernel(row, agent, held)

    def _ranked(self, granted: Mapping[int, Sequence[ResourceSpec]]) -> tuple[KernelPlacement, ...]:
        kernels: list[KernelPlacement] = []
        rows = sorted(granted, key=lambda row: int(self._cluster.name_rank[row])) if len(granted) > 1 else granted
        for row in rows:
            agent = self._agents[row]
            for spec in granted[row]:
                rank = len(kernels)
                kernels.append(KernelPlacement(rank=rank, agent_id=agent.id, node_id=agent.node_id, spec=spec))
        return tuple(kernels)
