"""The openb cluster as agents, and a queue like its jobs, for full-size passes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request
from aliquot.core.placement.cluster_arrays import NodeRow
from aliquot.core.placement.strategy import RequestClass
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId, UserId
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState
from allocation_devices import CPU, MEM, SHARES, WHOLE, cores, gpu, pool
from placement_traces import Trace

MIB = 2**20
SECOND_US = 1_000_000
OWNERS = 15
LIMITS_MS = (None, 600_000, 7_200_000, 86_400_000)


@dataclass(frozen=True)
class Full:
    """The cluster of a trace, and queue rows of its `classes` most frequent requests."""

    trace: Trace
    classes: int = 40

    @cached_property
    def agents(self) -> tuple[AgentRow, ...]:
        """One agent per node: its GPUs, cores in two NUMA nodes, and memory."""
        return tuple(_agent(node, self.trace.model_of[node.name]) for node in self.trace.nodes)

    @cached_property
    def requests(self) -> Sequence[Request]:
        """The most frequent ones."""
        counts = Counter(_request(job.request) for job in self.trace.jobs.values())
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [request for request, _ in islice(ranked, self.classes)]

    def rows(self, count: int, *, prefix: str, at_us: int = 0) -> list[PendingRow]:
        """Rows in an arrival order of the trace, a second apart, without jobs of rarer requests."""
        kept = set(self.requests)
        order = next(iter(self.trace.arrivals.values()))
        asked = [request for request in (_request(self.trace.jobs[job].request) for job in order) if request in kept]
        return [
            _row(f"{prefix}{number:06d}", asked[number % len(asked)], number=number, at_us=at_us + number * SECOND_US)
            for number in range(count)
        ]


def _agent(node: NodeRow, model: str) -> AgentRow:
    devices = [
        *(
            gpu(
                index,
                id=DeviceId(f"{node.name}-cuda{index}"),
                model=model,
                numa_node=index * 2 // len(node.devices),
            )
            for index in range(len(node.devices))
        ),
        *cores(range(node.cpu // 2000), numa_node=0),
        *cores(range(node.cpu // 2000, node.cpu // 1000), numa_node=1),
        pool(0, size=node.mem * MIB),
    ]
    layout = DeviceLayout.of(devices)
    return AgentRow(id=AgentId(node.name), node_id=NodeId(node.name), layout=layout, is_open=True)


def _request(asked: RequestClass) -> Request:
    """Cores are whole; shares are multiples of ten milli."""
    amounts = {CPU: -(-asked.cpu // 1000), MEM: asked.mem * MIB}
    if asked.devices and asked.milli >= 1000:
        amounts[WHOLE] = asked.devices
    elif asked.devices:
        amounts[SHARES] = asked.devices * (-(-asked.milli // 10) * 10)
    return tuple(sorted((slot, amount) for slot, amount in amounts.items() if amount))


def _row(name: str, request: Request, *, number: int, at_us: int) -> PendingRow:
    return PendingRow(
        session_id=SessionId(name),
        version=1,
        state=SessionState.QUEUED,
        request=request,
        cluster_size=1,
        gpu_memory_bytes=None,
        priority=Priority.NORMAL,
        queued_us=at_us,
        not_before_us=None,
        excluded_agents=(),
        depends_on=(),
        owner=UserId(f"user{number % OWNERS}"),
        estimate_ms=600_000 + number % 7 * 900_000,
        limit_ms=LIMITS_MS[number % len(LIMITS_MS)],
    )
