"""A standing: what is free on the open agents as arrays, with the scores made on them; kept from pass to pass."""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import compress
from operator import is_not
from typing import Final

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.placement.asks import Asks, mix_of
from aliquot.core.placement.cluster import Cluster
from aliquot.core.placement.devices import Columns, DeviceTable
from aliquot.core.placement.requests import WHOLE_MILLI, Mix
from aliquot.core.placement.scoreboard import Scoreboard
from aliquot.core.placement.strategies import making
from aliquot.core.placement.strategy import Strategy
from aliquot.core.snapshot import AgentRow, Request
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import AgentId, NodeId

ASKS_MAX: Final = 256
"""Kinds of requests whose scores are kept from pass to pass, at most."""
NOTHING: Final[Occupancy] = {}
Used = Mapping[NodeId, Occupancy]


class Likings:
    """The strategy of a pass, made once for all standings and for as long as the mix stays the same."""

    def __init__(self) -> None:
        self._asked: tuple[Mapping[Request, int], Mix] | None = None
        self._made: tuple[str, Mix, Strategy] | None = None

    def strategy(self, placement: str, asked: Mapping[Request, int], *, size_max: int) -> Strategy:
        """The strategy for what was asked; `asked` is known by identity, and must not be changed in place."""
        if self._asked is None or self._asked[0] is not asked:
            self._asked = asked, mix_of(asked)
        mix = self._asked[1]
        if self._made is None or self._made[:2] != (placement, mix):
            self._made = placement, mix, making(placement)(mix, size_max=size_max)
        return self._made[2]


class Standing:
    """Rows stand for agents, in the order of the cluster."""

    def __init__(self, agents: Sequence[AgentRow], used: Used) -> None:
        """The agents are open ones; they stay the same for as long as this is used."""
        by_id = {agent.id: agent for agent in agents}
        columns = {agent.id: Columns.of(agent.layout) for agent in agents}
        self.cluster = Cluster([columns[agent.id].row(agent.id, used.get(agent.node_id, NOTHING)) for agent in agents])
        self.agents = [by_id[AgentId(node.name)] for node in self.cluster.nodes]
        self.columns = [columns[agent.id] for agent in self.agents]
        self.size_max = int(self.cluster.dev_size.max(initial=WHOLE_MILLI))
        self._table = DeviceTable(self.columns, width=self.cluster.dev_free.shape[1])
        self._rows_on: dict[NodeId, list[int]] = {}
        for row, agent in enumerate(self.agents):
            self._rows_on.setdefault(agent.node_id, []).append(row)
        self._nodes = [agent.node_id for agent in self.agents]
        self._read = list(map(used.get, self._nodes))
        """The very mapping that each row was made from; None = nothing was held."""
        self._asks: tuple[AllocationOptions, Asks] | None = None
        self._board: Scoreboard | None = None
        self._likings = Likings()

    def twin(self) -> "Standing":
        """The same, to go another way from here."""
        twin = copy(self)
        twin.cluster = self.cluster.twin()
        twin._read = list(self._read)
        if self._board is not None:
            twin._board = self._board.twin(twin.cluster)
        return twin

    def follow(self, used: Used) -> None:
        """Read again what is held by another mapping than before."""
        held = list(map(used.get, self._nodes))
        for row in compress(range(len(held)), map(is_not, held, self._read)):
            self._write(row, held[row])

    def take(self, node_id: NodeId, specs: Sequence[ResourceSpec], used: Occupancy) -> None:
        """Something was given on a node, which is held so since; nothing but the devices of these specs changed."""
        rows = self._rows_on[node_id]
        row = rows[0]
        columns = self.columns[row]
        host = columns.host_change(specs, self._read[row] or NOTHING, used) if len(rows) == 1 else None
        if host is None:
            for other in rows:
                self._write(other, used)
            return
        self.cluster.shrink_row(row, cpu=host[0], mem=host[1], free_milli=columns.free_milli(used))
        self._read[row] = used

    def shed(self) -> None:
        """Forget the scores when there are too many of them to be kept."""
        if self._asks is not None and len(self._asks[1]) > ASKS_MAX:
            self._asks = self._board = None

    def asks(self, options: AllocationOptions) -> Asks:
        """What rows ask for, in terms of these arrays."""
        if self._asks is None or self._asks[0] != options:
            self._asks = options, Asks(self._table, options)
            self._board = None
        return self._asks[1]

    def board(self, placement: str, asked: Mapping[Request, int], *, seed: int) -> Scoreboard:
        """The scores by a strategy; the lots that it draws begin anew.

        Raises:
            InvalidRequest: there is no such strategy.
        """
        strategy = self._likings.strategy(placement, asked, size_max=self.size_max)
        if self._board is None or self._board.strategy is not strategy:
            self._board = Scoreboard(self.cluster, strategy, seed=seed)
        self._board.begin(seed)
        return self._board

    def _write(self, row: int, used: Occupancy | None) -> None:
        columns, held = self.columns[row], used or NOTHING
        cpu, mem = columns.host_free(held)
        self.cluster.set_row(row, cpu=cpu, mem=mem, free_milli=columns.free_milli(held))
        self._read[row] = used
