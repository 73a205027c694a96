"""Random clusters and queues: small ones, where nodes are shared, devices break, and rows depend on each other."""

from typing import Any, Final

from hypothesis import strategies as st

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.states import SessionState
from allocation_devices import GB, cores, gpu, pool, slice_of
from core_cluster import NOW_US, after, on, row, snapshot

ACCELERATED: Final[list[dict[str, str]]] = [
    {"cuda_device": "1"},
    {"cuda_device": "2"},
    {"cuda_device": "3"},
    {"cuda_shares": "0.3"},
    {"cuda_shares": "0.5"},
    {"cuda_shares": "0.01"},
    {"cuda_shares": "1.2"},
    {"cuda_shares": "2.5"},
    {"gpu_device": "1"},
    {},
]
HOSTED: Final[list[dict[str, str]]] = [{}, {}, {"cpu": "1"}, {"cpu": "3"}, {"mem": "1k"}, {"cpu": "2", "mem": "3k"}]


@st.composite
def devices(draw: st.DrawFn) -> list[Device]:
    """Up to four GPUs, some broken or with an older slot name, a slice, cores and memory."""
    found: list[Device] = []
    for index in range(draw(st.integers(0, 4))):
        health = draw(st.sampled_from([DeviceHealth.HEALTHY] * 6 + [DeviceHealth.UNHEALTHY, DeviceHealth.GONE]))
        model = draw(st.sampled_from(["H100", "H100", "A100"]))
        memory_bytes = draw(st.sampled_from([24 * GB, 80 * GB]))
        found.append(gpu(index, health=health, model=model, memory_bytes=memory_bytes))
    if found and draw(st.booleans()):
        found.append(slice_of(found[0], 7))
    numa_node = draw(st.sampled_from([None, 0, 1]))
    found += cores(range(draw(st.integers(0, 4))), numa_node=numa_node)
    return [*found, pool(0, size=4096)] if draw(st.booleans()) else found


@st.composite
def agents(draw: st.DrawFn, *, share_nodes: bool = True) -> list[AgentRow]:
    """Up to four agents; those of one node see all of its devices, or some."""
    found: list[AgentRow] = []
    for number in range(draw(st.integers(1, 2 if share_nodes else 4))):
        all_of_node = draw(devices())
        for part in range(draw(st.integers(1, 2)) if share_nodes else 1):
            # A device and its slices belong to one agent, or are seen by both.
            families = dict.fromkeys(device.parent or device.id for device in all_of_node)
            shown = {family for family in families if not share_nodes or draw(st.integers(0, 3))}
            seen = [device for device in all_of_node if (device.parent or device.id) in shown]
            name = f"{'ab'[part]}{number + 9}"
            is_open = draw(st.sampled_from([True, True, True, False]))
            found.append(on(name, seen or cores([0]), node=f"node{number}", is_open=is_open))
    return found


@st.composite
def rows(draw: st.DrawFn, name: str, *, others: list[str]) -> PendingRow:
    """A row that may wait for any reason."""
    asked = draw(st.sampled_from(ACCELERATED)) | draw(st.sampled_from(HOSTED))
    links = draw(st.lists(st.sampled_from([*others, "gone"]), max_size=1)) if others and draw(st.booleans()) else []
    more: dict[str, Any] = dict(asked or {"cpu": "1"})
    return row(
        name,
        at=draw(st.integers(0, 3)),
        kernels=draw(st.sampled_from([1, 1, 1, 2, 3, 5])),
        kernels_max=draw(st.sampled_from([None, None, None, 6, 9])),
        after=[(other, draw(st.sampled_from(["after_ok", "after_any", "after_fail"]))) for other in links],
        state=draw(st.sampled_from([SessionState.QUEUED] * 7 + [SessionState.HELD])),
        not_before_us=draw(st.sampled_from([None, None, None, NOW_US, NOW_US + 7])),
        gpu_memory_bytes=draw(st.sampled_from([None, None, None, 40 * GB])),
        excluded_agents=tuple(AgentId(name) for name in draw(st.sampled_from([(), (), (), ("a9",), ("b9", "a10")]))),
        **more,
    )


@st.composite
def queues(draw: st.DrawFn, *, prefix: str) -> list[PendingRow]:
    """Up to six rows; some depend on others of the queue."""
    names = [f"{prefix}{index}" for index in range(draw(st.integers(0, 6)))]
    return [draw(rows(name, others=[other for other in names if other != name])) for name in names]


@st.composite
def snapshots(draw: st.DrawFn, *, share_nodes: bool = True) -> Snapshot:
    """A cluster with some running sessions, and a queue."""
    cluster = draw(agents(share_nodes=share_nodes))
    ran = snapshot(cluster, draw(queues(prefix="ran")))
    before = after(ran, decide(ran, Policy(), now_us=NOW_US, seed=0))
    queue = draw(queues(prefix="ses"))
    states = draw(st.lists(st.sampled_from(SessionState), min_size=len(queue), max_size=len(queue)))
    known = {SessionId(row.session_id): state for row, state in zip(queue, states, strict=True)}
    return snapshot(cluster, queue, used=before.used, holders=before.holders, dependencies=known)
