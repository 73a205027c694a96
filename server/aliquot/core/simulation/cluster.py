"""Simulated clusters, as one pool of equal GPUs or as nodes, and the settings of a run."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SlotName
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.slots import MILLI

WHOLE: Final = SlotName("cuda.device")
SHARES: Final = SlotName("cuda.shares")
CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")


class Machine(Struct, frozen=True, kw_only=True):
    """One node of a cluster."""

    name: str
    cores: int
    mem_bytes: int
    gpus: int
    model: str = ""
    gpu_memory_bytes: int = 0


def pool(gpus: int) -> tuple[AgentRow, ...]:
    """One pool of interchangeable GPUs: a single device with `gpus` units."""
    return (_agent("pool", [_gpu("pool", units=gpus)]),)


def nodes(count: int, *, gpus_each: int) -> tuple[AgentRow, ...]:
    """Nodes with GPUs only; a kernel gets all of its GPUs on one node."""
    return machines(Machine(name=f"node{number}", cores=0, mem_bytes=0, gpus=gpus_each) for number in range(count))


def machines(found: Iterable[Machine]) -> tuple[AgentRow, ...]:
    """Nodes with one agent each."""
    return tuple(_agent(machine.name, list(_devices(machine))) for machine in found)


def _devices(machine: Machine) -> Iterable[Device]:
    for index in range(machine.gpus):
        yield _gpu(f"{machine.name}-cuda{index}", units=1, model=machine.model, memory_bytes=machine.gpu_memory_bytes)
    for slot, amount in ((CPU, machine.cores), (MEM, machine.mem_bytes)):
        if amount:
            yield _host(f"{machine.name}-{slot}", slot=slot, amount=amount)


def _agent(name: str, devices: list[Device]) -> AgentRow:
    return AgentRow(id=AgentId(name), node_id=NodeId(name), layout=DeviceLayout.of(devices), is_open=True)


def _gpu(name: str, *, units: int, model: str = "", memory_bytes: int = 0) -> Device:
    return Device(
        id=DeviceId(name),
        name=name,
        kind="cuda",
        model=model,
        budget=units * MILLI,
        costs={WHOLE: MILLI, SHARES: 1},
        quanta={},
        memory_bytes=memory_bytes,
    )


def _host(name: str, *, slot: SlotName, amount: int) -> Device:
    """All cores, or all memory, as one device."""
    return Device(
        id=DeviceId(name), name=name, kind=slot, model="", budget=amount, costs={slot: 1}, quanta={}, memory_bytes=0
    )


class Estimates(StrEnum):
    """Source of the expected run times."""

    PREDICTED = "predicted"
    """The built-in predictor, as runs end."""
    EXACT = "exact"
    """An oracle: the true run time, also used as the limit. No real scheduler knows it."""
    NONE = "none"
    """No estimates."""


class SimulationSettings(Struct, frozen=True, kw_only=True):
    """Settings of a run."""

    policy: Policy
    estimates: Estimates = Estimates.PREDICTED
    jitter_permille: int = 0
    """Random error of the run times that the predictor learns, up to this much either way; makes runs with different
    seeds differ."""
    seed: int = 0
    checkpoint_ms: int | None = None
    """A preempted job resumes from the last multiple of this run time; None = from the start."""
    restart_ms: int = 0
    """Time that a preempted job holds its devices without working when it starts again."""
