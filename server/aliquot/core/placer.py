"""The placer: puts sessions where a strategy likes them most, and lets the allocation choose exact devices there."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import Strategy as Spreading
from aliquot.core.placement.devices import Columns
from aliquot.core.placement.scoreboard import NOWHERE, Ask, Choice
from aliquot.core.placement.standing import Standing
from aliquot.core.plan import KernelPlacement
from aliquot.core.policy import Policy
from aliquot.core.room import Room
from aliquot.core.roster import Scope, scope_of
from aliquot.core.snapshot import AgentRow, PendingRow, Snapshot
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import NodeId, SessionId


class Placer:
    """Places one session after the other into a room; its arrays follow what the room gives away."""

    _standing: Standing

    def __init__(
        self, snapshot: Snapshot, policy: Policy, *, room: Room, seed: int, like: "Placer | None" = None
    ) -> None:
        """Begins with what the room's memo, or another placer, knows, and leaves that as it is."""
        self._room = room
        self._takes_tightest = policy.allocation.strategy is Spreading.EVENLY
        known = room.memo.standing if like is None else like._standing
        if known is None:
            known = room.memo.standing = Standing(room.roster.open, room.used)
        self._standing = known.twin()
        self._standing.follow(room.used)
        self._cluster: Final = self._standing.cluster
        self._agents: Final = self._standing.agents
        self._columns: Final = self._standing.columns
        self._asks: Final = self._standing.asks(policy.allocation)
        self._board: Final = self._standing.board(policy.placement, snapshot.asked, seed=seed)
        self._closed: dict[Scope, tuple[int, ...]] = {}

    def keep(self) -> None:
        """Let later passes begin from here. To be called at the end of a pass, for the placer of what is free now."""
        self._standing.shed()
        self._room.memo.standing = self._standing

    def place(self, row: PendingRow) -> tuple[KernelPlacement, ...]:
        """Place as many kernels as fit together, in order of rank; takes nothing from the room.

        A gang goes on one agent if one holds it, else on the agents that hold most of what is left, one after the
        other; among equals the strategy decides. Ranks follow the natural order of the agents.
        """
        ask = self._asks.of(row)
        closed = list(self._closed_to(row))
        used: dict[NodeId, Occupancy] = {}
        given: dict[int, list[ResourceSpec]] = {}
        left = row.cluster_size
        while left and (choice := self._next(ask, closed=closed, left=left)) is not None:
            node_id = self._agents[choice.row].node_id
            is_untouched = node_id not in used
            specs = self._fill(row, ask, choice, used=used, most=left)
            if specs or not is_untouched:
                given[choice.row] = specs
                closed.append(choice.row)
                left -= len(specs)
            else:
                self._board.refuse(ask, choice.row)
        return self._ranked(given)

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:
        """Count a session's kernels as placed."""
        self._room.take(session_id, kernels)
        specs: dict[NodeId, list[ResourceSpec]] = {}
        for kernel in kernels:
            specs.setdefault(kernel.node_id, []).append(kernel.spec)
        for node_id, given in specs.items():
            self._standing.take(node_id, given, self._room.used_on(node_id))

    def _closed_to(self, row: PendingRow) -> tuple[int, ...]:
        """Rows of agents that it may not be put on."""
        scope = scope_of(row)
        closed = self._closed.get(scope)
        if closed is None:
            open_agents = self._room.open_agents(row)
            if len(open_agents) == len(self._agents):
                closed = ()
            else:
                allowed = {agent.id for agent in open_agents}
                closed = tuple(number for number, agent in enumerate(self._agents) if agent.id not in allowed)
            self._closed[scope] = closed
        return closed

    def _next(self, ask: Ask, *, closed: Sequence[int], left: int) -> Choice | None:
        """The best agent of those that hold all kernels that are left, or else of those that hold most of them."""
        if left == 1:
            return self._board.best(ask, without=closed)
        scores = self._board.scores(ask)
        is_open = scores != NOWHERE
        is_open[closed] = False
        if not is_open.any():
            return None
        counts = np.where(is_open, self._board.counts(ask), -1)
        pool = is_open & (counts >= min(left, counts.max()))
        return self._board.choice(ask, int(np.where(pool, scores, NOWHERE).argmax()))

    def _fill(
        self, row: PendingRow, ask: Ask, choice: Choice, *, used: dict[NodeId, Occupancy], most: int
    ) -> list[ResourceSpec]:
        """Put up to `most` kernels on one agent; `used` is what is held on nodes that the session has a part of."""
        agent, columns = self._agents[choice.row], self._columns[choice.row]
        held = used.get(agent.node_id, self._room.used_on(agent.node_id))
        column = choice.column if agent.node_id not in used else self._column(ask, choice.row, held)
        specs: list[ResourceSpec] = []
        takes_column = ask.is_share and self._takes_tightest and not columns.rivals
        while (
            spec := self._grant(row, agent, columns, held=held, column=column if takes_column else None)
        ) is not None:
            specs.append(spec)
            if len(specs) == most:
                break
            held = used[agent.node_id] = self._room.with_spec(agent, held, spec)
            column = self._column(ask, choice.row, held)
        return specs

    def _column(self, ask: Ask, row: int, held: Occupancy) -> int | None:
        return self._board.column_when(ask, row, self._columns[row].row(self._agents[row].id, held))

    def _grant(
        self, row: PendingRow, agent: AgentRow, columns: Columns, *, held: Occupancy, column: int | None
    ) -> ResourceSpec | None:
        """Exact devices for one kernel: a share goes on the column that was found best, if the allocation takes it."""
        if column is not None:
            spec = self._room.try_kernel(row, agent, held, liked=columns.accelerators[column].id)
            if spec is not None:
                return spec
        return self._room.try_kernel(row, agent, held)

    def _ranked(self, given: Mapping[int, Sequence[ResourceSpec]]) -> tuple[KernelPlacement, ...]:
        kernels: list[KernelPlacement] = []
        rows = sorted(given, key=lambda row: int(self._cluster.name_rank[row])) if len(given) > 1 else given
        for row in rows:
            agent = self._agents[row]
            for spec in given[row]:
                rank = len(kernels)
                kernels.append(KernelPlacement(rank=rank, agent_id=agent.id, node_id=agent.node_id, spec=spec))
        return tuple(kernels)
