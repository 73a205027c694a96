"""Placement state: the open agents as cluster arrays with their scores, kept from pass to pass."""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import compress
from operator import is_not
from typing import Final

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.model.snapshot import AgentRow, Request
from aliquot.core.placement.cluster_arrays import ClusterArrays, Columns, DeviceTable
from aliquot.core.placement.placement_requests import PlacementRequests, mix_of
from aliquot.core.placement.request_classes import WHOLE_MILLI, RequestMix
from aliquot.core.placement.scoreboard import Scoreboard
from aliquot.core.placement.strategies import making
from aliquot.core.placement.strategy import Strategy
from aliquot_schema.ids import AgentId, NodeId
from aliquot_schema.resources.devices import ResourceSpec

REQUESTS_MAX: Final = 256
"""Requests whose scores are kept from pass to pass."""
NOTHING: Final[Occupancy] = {}
Used = Mapping[NodeId, Occupancy]


class StrategyCache:
    """The strategy of a pass; shared by copies of a state, and kept while the mix of requests stays the same."""

    def __init__(self) -> None:
        self._asked: tuple[Mapping[Request, int], RequestMix] | None = None
        self._made: tuple[str, RequestMix, Strategy] | None = None

    def strategy(self, placement: str, asked: Mapping[Request, int], *, size_max: int) -> Strategy:
        """The strategy for a mix of requests; `asked` is compared by identity and must not be changed in place."""
        if self._asked is None or self._asked[0] is not asked:
            self._asked = asked, mix_of(asked)
        mix = self._asked[1]
        if self._made is None or self._made[:2] != (placement, mix):
            self._made = placement, mix, making(placement)(mix, size_max=size_max)
        return self._made[2]


class PlacementState:
    """Free capacity and scores of the open agents; rows are in the order of the cluster."""

    def __init__(self, agents: Sequence[AgentRow], used: Used) -> None:
        """Args:
        agents: the open agents; another list needs another state.
        """
        by_id = {agent.id: agent for agent in agents}
        columns = {agent.id: Columns.of(agent.layout) for agent in agents}
        self.cluster = ClusterArrays(
            [columns[agent.id].row(agent.id, used.get(agent.node_id, NOTHING)) for agent in agents]
        )
        self.agents = [by_id[AgentId(node.name)] for node in self.cluster.nodes]
        self.columns = [columns[agent.id] for agent in self.agents]
        self.size_max = int(self.cluster.dev_size.max(initial=WHOLE_MILLI))
        self._table = DeviceTable(self.columns, width=self.cluster.dev_free.shape[1])
        self._rows_on: dict[NodeId, list[int]] = {}
        for row, agent in enumerate(self.agents):
            self._rows_on.setdefault(agent.node_id, []).append(row)
        self._nodes = [agent.node_id for agent in self.agents]
        self._read = list(map(used.get, self._nodes))
        """The mapping that each row was made from; None = idle."""
        self._requests: tuple[AllocationOptions, PlacementRequests] | None = None
        self._board: Scoreboard | None = None
        self._strategies = StrategyCache()

    def copy(self) -> "PlacementState":
        """An independent copy; scores are shared until one of the two changes them."""
        other = copy(self)
        other.cluster = self.cluster.copy()
        other._read = list(self._read)
        if self._board is not None:
            other._board = self._board.copy(other.cluster)
        return other

    def follow(self, used: Used) -> None:
        """Update the rows of nodes with another mapping than before."""
        held = list(map(used.get, self._nodes))
        for row in compress(range(len(held)), map(is_not, held, self._read)):
            self._write(row, held[row])

    def take(self, node_id: NodeId, specs: Sequence[ResourceSpec], used: Occupancy) -> None:
        """Update a node after grants of `specs`; `used` is its usage now, changed on their devices alone."""
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

    def release_scores(self) -> None:
        """Drop the scores if there are more than `REQUESTS_MAX`."""
        if self._requests is not None and len(self._requests[1]) > REQUESTS_MAX:
            self._requests = self._board = None

    def requests(self, options: AllocationOptions) -> PlacementRequests:
        """Placement requests on these arrays."""
        if self._requests is None or self._requests[0] != options:
            self._requests = options, PlacementRequests(self._table, options)
            self._board = None
        return self._requests[1]

    def board(self, placement: str, asked: Mapping[Request, int], *, seed: int) -> Scoreboard:
        """The scoreboard of a strategy, with its random numbers restarted from `seed`.

        Raises:
            InvalidRequest: unknown strategy.
        """
        strategy = self._strategies.strategy(placement, asked, size_max=self.size_max)
        if self._board is None or self._board.strategy is not strategy:
            self._board = Scoreboard(self.cluster, strategy, seed=seed)
        self._board.begin(seed)
        return self._board

    def _write(self, row: int, used: Occupancy | None) -> None:
        columns, held = self.columns[row], used or NOTHING
        cpu, mem = columns.host_free(held)
        self.cluster.set_row(row, cpu=cpu, mem=mem, free_milli=columns.free_milli(held))
        self._read[row] = used
