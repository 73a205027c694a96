"""Placement state: the open agents as cluster arrays with their scores, and pending rows in terms of these arrays.

It is kept from pass to pass.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache
from itertools import compress
from operator import is_not
from typing import Final

import numpy as np

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request
from aliquot.core.placement.cluster_arrays import CPU, MEM, WHOLE_MILLI, BoolArray, ClusterArrays, Columns, DeviceTable
from aliquot.core.placement.least_waste import LeastWaste
from aliquot.core.placement.scoreboard import PlacementRequest, Scoreboard
from aliquot.core.placement.strategies import making
from aliquot.core.placement.strategy import RequestClass, RequestMix, Strategy
from aliquot.core.placement.switches import Switches
from aliquot_schema.bookings import BookedDevice
from aliquot_schema.ids import AgentId, NodeId, SlotName
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.slots import MILLI, is_accelerator, scale_of

MEMORY_BYTES_MAX: Final = 2**43
"""More than any device has, and small enough to multiply in 64 bits."""

COUNT_BITS: Final = 5
"""Significant bits of a count in the mix."""


@lru_cache(maxsize=4096)
def class_of(request: Request) -> RequestClass:
    """The class of a request per kernel: its first accelerator, CPU and memory.

    Shares of more than one device count as equal parts of as few devices as possible. Other slots and other splits are
    left to the allocation on the agent.
    """
    amounts = dict(request)
    slot = accelerator_of(request)
    devices = milli = 0
    if slot is not None:
        milli_sum = amounts[slot] * (MILLI // scale_of(slot))
        devices = -(-milli_sum // WHOLE_MILLI)
        milli = -(-milli_sum // devices)
    return RequestClass(cpu=amounts.get(CPU, 0) * 1000, mem=amounts.get(MEM, 0), devices=devices, milli=milli)


def accelerator_of(request: Request) -> SlotName | None:
    """The first accelerator slot of a request; None without one."""
    return next((slot for slot, _ in request if is_accelerator(slot)), None)


def mix_of(asked: Mapping[Request, int]) -> RequestMix:
    """The mix of all requests.

    Counts are rounded down to `COUNT_BITS` significant bits, so that with many sessions the mix, and the scores that
    depend on it, seldom change. The error is at most 1/16 per class.
    """
    counts: dict[RequestClass, int] = {}
    for request, count in asked.items():
        kind = class_of(request)
        counts[kind] = counts.get(kind, 0) + count
    return RequestMix.of({kind: _rounded(count) for kind, count in counts.items()})


def _rounded(count: int) -> int:
    rest = max(count.bit_length() - COUNT_BITS, 0)
    return count >> rest << rest


Closed = tuple[BookedDevice, ...]


class PlacementRequests:
    """Makes the request of a row; rows of one class share it."""

    def __init__(self, devices: DeviceTable, options: AllocationOptions) -> None:
        self._devices = devices
        self._options = options
        self._known: dict[tuple[Request, int | None, tuple[str, ...], Closed], PlacementRequest] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, row: PendingRow) -> PlacementRequest:
        """The request of a row."""
        key = (row.request, row.gpu_memory_bytes, row.where.models, row.where.closed_devices)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._request(row)
        return known

    def _request(self, row: PendingRow) -> PlacementRequest:
        slot = accelerator_of(row.request)
        request = class_of(row.request)
        if slot is None:
            return PlacementRequest(request=request)
        usable = self._usable(slot, amount=dict(row.request)[slot], row=row)
        offers = self._devices.offers(slot)
        is_share = scale_of(slot) == MILLI
        is_split = is_share and request.devices > 1
        is_plain = bool((offers.is_plain | ~usable).all())
        return PlacementRequest(
            request=request,
            usable=usable,
            is_share=is_share,
            is_loose=is_split or self._options.allow_fragmentation or not is_plain,
        )

    def _usable(self, slot: SlotName, *, amount: int, row: PendingRow) -> BoolArray:
        """[rows, D] open devices of the right models that offer the slot in this quantum, with enough memory for the
        largest part."""
        offers = self._devices.offers(slot)
        usable: BoolArray = offers.has_slot & (amount % offers.quantum == 0)
        for patterns in (self._options.models, row.where.models):
            if patterns:
                usable &= self._devices.of_models(patterns)
        if row.where.closed_devices:
            usable &= ~self._devices.among(row.where.closed_devices)
        memory_bytes = row.gpu_memory_bytes
        if memory_bytes:
            size = self._devices.size
            part = np.minimum(size, amount) if scale_of(slot) == MILLI else size
            usable &= self._devices.memory_bytes * part >= min(memory_bytes, MEMORY_BYTES_MAX) * size
        return usable


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
            made = making(placement)(mix, size_max=size_max)
            if self._made is not None and isinstance(made, LeastWaste) and made.is_same(self._made[2]):
                made = self._made[2]  # scores are kept as long as the strategy is the same object
            self._made = placement, mix, made
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
        self.switches = Switches(self.agents)
        self.size_max = int(self.cluster.dev_size.max(initial=WHOLE_MILLI))
        self._nodes = [agent.node_id for agent in self.agents]
        self._table = DeviceTable(self.columns, nodes=self._nodes, width=self.cluster.dev_free.shape[1])
        self._rows_on: dict[NodeId, list[int]] = {}
        for row, agent in enumerate(self.agents):
            self._rows_on.setdefault(agent.node_id, []).append(row)
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
            before = self._board
            self._board = Scoreboard(self.cluster, strategy, seed=seed)
            if before is not None:
                self._board.keep_nowhere(before)
        self._board.begin(seed)
        return self._board

    def _write(self, row: int, used: Occupancy | None) -> None:
        columns, held = self.columns[row], used or NOTHING
        cpu, mem = columns.host_free(held)
        self.cluster.set_row(row, cpu=cpu, mem=mem, free_milli=columns.free_milli(held))
        self._read[row] = used
