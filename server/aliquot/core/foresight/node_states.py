"""Node states: what is held on one node as one integer, and tables of what the real placement makes of it.

A node's state has one bit field per device with the budget held of it, in the order of the agent's devices. Nodes with
the same devices have the same *shape*, and share its tables: for a request and a state the score of the placement
strategy, how many kernels fit, and which devices the next kernel gets. A table is filled by the real strategy and the
real allocation, each state once, so it is as exact as they are. After that, a placement is a look-up and an addition.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from aliquot.core import fairshare
from aliquot.core.allocation.device_map import allocate
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import Occupancy, occupancy_on
from aliquot.core.allocation.options import AllocationOptions, ShareStrategy
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request, held_milli
from aliquot.core.placement.placement_state import PlacementState
from aliquot.core.placement.scoreboard import LAST, NOWHERE, PlacementRequest
from aliquot.core.scheduler.cache import FreeMilli
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId
from aliquot_schema.resources.devices import ResourceSpec

Value = TypeVar("Value")
STATES_MAX: Final = 200_000
"""States kept per table; a full table is emptied."""


class KernelGrant(NamedTuple):
    """The devices of one kernel on one node."""

    delta: int
    """What is added to the node's state."""
    milli: int
    """Accelerators."""
    rate_milli: int
    """What fair share charges for it."""


class Memo(dict[int, Value]):
    """Results by state, each computed when it is first read: `memo[state]`."""

    def __init__(self, compute: Callable[[int], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, state: int) -> Value:
        if len(self) >= STATES_MAX:
            self.clear()
        found = self[state] = self._compute(state)
        return found


class NodeShape:
    """The devices of some nodes."""

    def __init__(self, agent: AgentRow, *, row: int, free: FreeMilli) -> None:
        """
        Args:
            agent: one of the agents with these devices.
            row: its row in the cluster arrays.
            free: counts free accelerators.
        """
        self.agent: Final = agent
        self.row: Final = row
        self.budgets: Final = tuple(device.budget for device in agent.layout.devices.values())
        self._shifts: Final[list[int]] = []
        self._masks: Final[list[int]] = []
        shift = 0
        for budget in self.budgets:
            width = budget.bit_length() + 1
            self._shifts.append(shift)
            self._masks.append((1 << width) - 1)
            shift += width
        self.free_milli: Final = Memo(lambda state: free.on(agent.node_id, self.occupancy(state)))
        """Free accelerators."""
        self._larger: dict[tuple[int, int], int] = {}

    def state(self, used: Occupancy, layout: DeviceLayout) -> int:
        """The state of a node of this shape. Devices that the layout does not have are left out."""
        held = used.get
        return sum(held(device, 0) << shift for device, shift in zip(layout.devices, self._shifts, strict=True))

    def occupancy(self, state: int) -> dict[DeviceId, int]:
        """The state as budget held by device of `agent`."""
        fields = zip(self.agent.layout.devices, self._shifts, self._masks, strict=True)
        return {device: held for device, shift, mask in fields if (held := state >> shift & mask)}

    def larger(self, state: int, other: int) -> int:
        """Per device, the larger of what is held in two states."""
        if state == other:
            return state
        key = state, other
        found = self._larger.get(key)
        if found is None:
            fields = zip(self._shifts, self._masks, strict=True)
            found = sum(max(state >> shift & mask, other >> shift & mask) << shift for shift, mask in fields)
            if len(self._larger) >= STATES_MAX:
                self._larger.clear()
            self._larger[key] = found
        return found


def shape_key(layout: DeviceLayout) -> tuple[object, ...]:
    """Equal for layouts that differ in the ids of their devices alone."""
    places = {device_id: place for place, device_id in enumerate(layout.devices)}
    devices = tuple(
        (
            device.kind,
            device.model,
            device.budget,
            tuple(sorted(device.costs.items())),
            tuple(sorted(device.quanta.items())),
            device.memory_bytes,
            device.numa_node,
            device.health,
            None if device.parent is None else places.get(device.parent, -1),
        )
        for device in layout.devices.values()
    )
    slots = tuple(
        (slot, tuple(places[device_id] for device_id in columns.ids), columns.islands)
        for slot, columns in sorted(layout.slots.items())
    )
    return devices, slots, layout.unique


class NodeTable:
    """What a request makes of each state of a shape."""

    def __init__(self, shape: NodeShape, request: "RequestTables", made: "TableMaker") -> None:
        self._shape = shape
        self._request = request
        self._made = made
        self.scores: Final = Memo(lambda state: made.score(shape, request.wanted, state))
        """The strategy's score on the shape's own row; `NOWHERE` if no kernel fits."""
        self.counts: Final = Memo(lambda state: made.count(shape, request.wanted, state))
        """About how many kernels fit together, see `Scoreboard.counts`."""
        self.grants: Final = Memo(self._grant)
        """The devices of the next kernel; None if it is refused, in which case the score becomes `NOWHERE`."""
        self._fills: dict[int, Memo[int]] = {}

    def fills(self, most: int) -> Memo[int]:
        """How many kernels fit together, at most `most`."""
        if most not in self._fills:
            self._fills[most] = Memo(lambda state: self._filled(state, most))
        return self._fills[most]

    def _filled(self, state: int, most: int) -> int:
        found = 0
        while found < most and self.scores[state] != NOWHERE and (grant := self.grants[state]) is not None:
            state += grant.delta
            found += 1
        return found

    def _grant(self, state: int) -> KernelGrant | None:
        found = self._made.grant(self._shape, self._request, state)
        if found is None:
            self.scores[state] = NOWHERE
        return found


class RequestTables:
    """The tables of one request, one per row of the cluster; rows of one shape share theirs."""

    def __init__(self, sample: PendingRow, wanted: PlacementRequest, options: AllocationOptions) -> None:
        self.amounts: Final = dict(sample.request)
        self.wanted: Final = wanted
        self.options: Final = replace(options, gpu_memory_bytes=sample.gpu_memory_bytes, models=sample.where.models)
        self.by_row: list[NodeTable] = []
        self.offsets: list[int] = []
        """[rows] what the strategy adds to a score for the row alone."""


class TableMaker:
    """Fills tables with the real strategy and the real allocation, on arrays of its own."""

    def __init__(self, state: PlacementState, policy: Policy, asked: Mapping[Request, int], *, seed: int) -> None:
        self._state = state
        self._placement = policy.placement
        self._seed = seed
        self._charges = policy.charges
        self._takes_tightest = policy.allocation.strategy is ShareStrategy.EVENLY
        self.board = state.board(policy.placement, asked, seed=seed)
        self._written: dict[int, int | None] = {}
        """The state that each row of the arrays is in; None = unknown."""

    def follow(self, asked: Mapping[Request, int]) -> bool:
        """Score for another mix of requests from now on; whether the strategy changes."""
        before, self.board = self.board, self._state.board(self._placement, asked, seed=self._seed)
        return before is not self.board

    def score(self, shape: NodeShape, wanted: PlacementRequest, state: int) -> int:
        self._write(shape, state)
        return int(self.board.scores(wanted)[shape.row])

    def count(self, shape: NodeShape, wanted: PlacementRequest, state: int) -> int:
        self._write(shape, state)
        return int(self.board.counts(wanted)[shape.row])

    def grant(self, shape: NodeShape, request: RequestTables, state: int) -> KernelGrant | None:
        """As `Placer`: a share goes on the device that the strategy prefers, if the allocation accepts it."""
        held = shape.occupancy(state)
        columns = self._state.columns[shape.row]
        spec = None
        if request.wanted.is_share and self._takes_tightest and not columns.rivals:
            row = columns.row(shape.agent.id, held)
            column = self.board.column_when(request.wanted, shape.row, row)
            if column is not None:
                spec = _allocated(shape.agent.layout, request, held, preferred=columns.accelerators[column].id)
        spec = spec or _allocated(shape.agent.layout, request, held)
        return None if spec is None else self._granted(shape, spec)

    def offsets(self, wanted: PlacementRequest, shapes: Sequence[NodeShape]) -> list[int]:
        """[rows] score of each row less that of its shape's own row, when both are idle."""
        for row, shape in enumerate(shapes):
            self._set(row, shape, 0)
        scores = self.board.scores(wanted)
        own = [int(scores[shape.row]) for shape in shapes]
        return [int(scores[row]) - own[row] if own[row] > LAST else 0 for row in range(len(shapes))]

    def _granted(self, shape: NodeShape, spec: ResourceSpec) -> KernelGrant:
        devices = shape.agent.layout.devices
        kernel = KernelPlacement(rank=0, agent_id=shape.agent.id, node_id=shape.agent.node_id, spec=spec)
        return KernelGrant(
            delta=shape.state(occupancy_on((spec,), devices), shape.agent.layout),
            milli=held_milli((kernel,), agents={shape.agent.id: shape.agent}),
            rate_milli=fairshare.rate_milli(spec, devices=devices, charges=self._charges),
        )

    def _write(self, shape: NodeShape, state: int) -> None:
        if self._written.get(shape.row) != state:
            self._set(shape.row, shape, state)

    def _set(self, row: int, shape: NodeShape, state: int) -> None:
        columns, held = self._state.columns[shape.row], shape.occupancy(state)
        cpu, mem = columns.host_free(held)
        free = columns.free_milli(held)
        self._state.cluster.set_row(row, cpu=cpu, mem=mem, free_milli=free)
        self._written[row] = state


def _allocated(
    layout: DeviceLayout, request: RequestTables, held: Occupancy, *, preferred: DeviceId | None = None
) -> ResourceSpec | None:
    try:
        return allocate(
            request.amounts,
            slots=layout.slots,
            used=held,
            unique=layout.unique,
            options=request.options,
            preferred=preferred,
        )
    except (AllocationRefused, InvalidRequest):
        return None
