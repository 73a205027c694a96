"""Shortage reasons for feasible sessions that do not fit now, counted on eligible agents."""

from collections.abc import Sequence

from msgspec.structs import replace

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.model.snapshot import ANYWHERE, AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.free_capacity import NAMED_MAX
from aliquot_schema.ids import DeviceId, NodeId, SessionId, SlotName
from aliquot_schema.reasons import Evidence, Reason
from aliquot_schema.resources.slots import SlotType
from allocation_devices import GB, cores, gpu, gpus, pool
from core_cluster import on, placed, places, row, waits
from ordering_scenes import EASY, busy, passed, runs

IB = (("net", "ib"),)
FAST, SLOW = replace(on("fast"), labels=dict(IB)), on("slow", gpus(4))


def holders(running: Sequence[RunningRow]) -> dict[NodeId, dict[DeviceId, tuple[SessionId, ...]]]:
    found: dict[NodeId, dict[DeviceId, tuple[SessionId, ...]]] = {}
    for one in running:
        for kernel in one.kernels:
            for device in (device for amounts in kernel.spec.values() for device in amounts):
                on_node = found.setdefault(kernel.node_id, {})
                on_node[device] = (*on_node.get(device, ()), one.session_id)
    return found


def held(agents: Sequence[AgentRow], running: Sequence[RunningRow], *queue: PendingRow) -> Snapshot:
    return busy(agents, running, queue, holders=holders(running))


def test_only_eligible_agents_are_counted_and_their_holders_named() -> None:
    running = [
        runs("a", FAST, {"cuda.device": {"cuda0": 1}}, ends_in_s=9),
        runs("b", SLOW, {"cuda.device": {"cuda0": 1}}, ends_in_s=9),
    ]
    wants = replace(ANYWHERE, labels=IB)
    plan = passed(held([FAST, SLOW], running, row("x", cuda_device="2", where=wants), row("y", at=1, cuda_device="4")))
    assert waits(plan, "x").evidence == Evidence(slot="cuda.device", requested="2", available="1", blocked_by=("a",))
    assert waits(plan, "y").evidence == Evidence(
        slot="cuda.device", requested="4", available="3", blocked_by=("a", "b")
    )


def test_only_devices_of_an_acceptable_model_are_counted() -> None:
    agent = on("x", [*gpus(2), gpu(2, model="A100"), gpu(3, model="A100")])
    running = [runs("a", agent, {"cuda.device": {"cuda0": 1}}, ends_in_s=9)]
    where = replace(ANYWHERE, models=("H*",))
    queue = [row("x", cuda_device="2", where=where), row("y", at=1, cuda_device="4")]
    plan = passed(held([agent], running, *queue))
    assert [waits(plan, name).evidence.available for name in "xy"] == ["1", "3"]


def test_shortages_are_counted_per_slot_including_sessions_started_in_the_pass() -> None:
    agent = on("x", [*gpus(2), *cores(range(8)), pool(0, size=4096)])
    queue = [
        row("first", cuda_device="1", cpu="5", limit_ms=1000),
        row("gpus", at=1, cuda_device="2", cpu="1", limit_ms=1000),
        row("cores", at=2, cuda_device="1", cpu="4", limit_ms=1000),
        row("more", at=3, cpu="4", limit_ms=1000),
        row("last", at=4, cpu="3", limit_ms=1000),
        row("late", at=5, cpu="1", limit_ms=1000),
    ]
    plan = passed(held([agent], [], *queue))
    assert placed(plan) == ["first", "last"]
    found = {name: waits(plan, name).evidence for name in ("gpus", "cores", "more", "late")}
    assert {name: (one.slot, one.requested, one.available) for name, one in found.items()} == {
        "gpus": ("cuda.device", "2", "1"),
        "cores": ("cpu", "4", "0"),
        "more": ("cpu", "4", "0"),
        "late": ("cpu", "1", "0"),
    }
    assert found["gpus"].blocked_by == found["late"].blocked_by == ("first", "last")


def test_a_slot_with_enough_free_is_not_reported_as_short() -> None:
    agent = on("x", [*gpus(2), *cores(range(4))])
    running = [runs("a", agent, {"cuda.device": {"cuda0": 1}}, ends_in_s=9)]
    plan = passed(held([agent], running, row("x", cuda_device="2", cpu="4"), row("y", at=1, cuda_device="1", cpu="4")))
    assert waits(plan, "x").evidence == Evidence(slot="cuda.device", requested="2", available="1", blocked_by=("a",))
    assert waits(plan, "y").reason is Reason.RESERVED


def test_the_number_of_named_holders_is_limited() -> None:
    agent = on("x", gpus(NAMED_MAX + 2))
    running = [
        runs(f"r{index:02}", agent, {"cuda.device": {f"cuda{index}": 1}}, ends_in_s=9) for index in range(NAMED_MAX + 2)
    ]
    plan = passed(held([agent], running, row("x", kernels=2)))
    assert waits(plan, "x").evidence.blocked_by == tuple(f"r{index:02}" for index in range(NAMED_MAX))
    part = passed(held([agent], running[:-1], row("x", kernels=2)))
    assert waits(part, "x").evidence == Evidence(fits_kernels=1, blocked_by=waits(plan, "x").evidence.blocked_by)


def test_fragmented_capacity_is_reported_with_the_holders_of_the_rest() -> None:
    agent = on("x", gpus(2))
    running = [runs(name, agent, {"cuda.shares": {f"cuda{n}": 500}}, ends_in_s=9) for n, name in enumerate("ab")]
    plan = passed(held([agent], running, row("x", cuda_shares="0.8")))
    assert (waits(plan, "x").reason, waits(plan, "x").evidence) == (Reason.FRAGMENTED, Evidence(blocked_by=("a", "b")))


def test_devices_are_chosen_by_what_each_session_asks_for() -> None:
    """In turn on one agent: by model, by memory, and by neither."""
    agent = on("x", [gpu(0), gpu(1, model="A100"), gpu(2, memory_bytes=24 * GB), gpu(3)])
    only = replace(ANYWHERE, models=("A100",))
    queue = [row("a", where=only), row("b", at=1, gpu_memory_bytes=40 * GB), row("c", at=2, where=only)]
    plan = passed(held([agent], [], *queue, row("d", at=3), row("e", at=4, gpu_memory_bytes=40 * GB)))
    given = {name: list(spec["cuda.device"]) for name, ((_, spec),) in places(plan).items()}
    assert given["a"] == ["cuda1"]
    assert waits(plan, "c").evidence.available == "0"
    assert {given["b"][0], given["e"][0]} == {"cuda0", "cuda3"}
    assert given["d"] == ["cuda2"]


def test_a_device_with_too_little_memory_is_not_granted_even_if_it_would_come_first() -> None:
    plan = passed(held([on("x", [gpu(0), gpu(1, memory_bytes=24 * GB)])], [], row("a", gpu_memory_bytes=40 * GB)))
    assert places(plan) == {"a": [("x", {"cuda.device": {"cuda0": 1}})]}


def test_no_session_gets_two_of_a_unique_slot() -> None:
    license_of = replace(cores([0])[0], id=DeviceId("l0"), name="l0", kind="license", costs={SlotName("license"): 1})
    devices = [license_of, replace(license_of, id=DeviceId("l1"), name="l1")]
    layout = DeviceLayout.of(devices, slot_types={SlotName("license"): SlotType.UNIQUE})
    agent = replace(on("x"), layout=layout)
    plan = passed(held([agent], [], row("one", license="1"), row("two", at=1, license="2")), EASY)
    assert placed(plan) == ["one"]
    assert waits(plan, "two").reason is Reason.NO_AGENT
