"""CPUs and memory of the host as devices."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import Field

from aliquot.execution.devices.checked import Size, Table
from aliquot.execution.devices.grant import held
from aliquot.execution.devices.host_facts import HostFacts, HostLoad, host_facts, host_load
from aliquot.execution.devices.plugin import DeviceFileError, DeviceUse
from aliquot_schema.devices import Device, DeviceReading, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import SlotType

CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
POOL: Final = DeviceId("mem0")


class HostConfig(Table):
    """The `host` table. Declared amounts are handed out whole, whatever the machine has; what is measured is handed
    out less the reserve, which is left to the system and to Aliquot."""

    cpu: int | None = Field(default=None, gt=0, le=4096)
    """Declared logical CPUs, numbered from 0."""
    mem: Size | None = Field(default=None, gt=0)
    reserved_cpu: int = Field(default=0, ge=0, alias="reserved-cpu")
    """How many of the lowest numbered CPUs to keep; interrupts prefer those."""
    reserved_mem: Size = Field(default=512 * 1024**2, ge=0, alias="reserved-mem")
    numa_nodes: int = Field(default=1, gt=0, alias="numa-nodes")
    """Over how many NUMA nodes declared CPUs are spread, in equal runs."""


class HostPlugin:
    """One device `cpu<n>` per logical CPU, and one memory pool `mem0`.

    Memory is one pool, however many NUMA nodes there are: nothing binds a job's memory to a node, so that pools per
    node would refuse or split large requests for a border that is not kept.
    """

    kind = "host"

    def __init__(self, config: Mapping[str, object] | None = None, *, root: Path = Path("/")) -> None:
        """Take the `host` table; `root` is where `/proc` and `/sys` are found.

        Raises:
            DeviceFileError: the table cannot be used.
        """
        self._config = HostConfig.checked(config or {}, source="host")
        self._root = root
        self._devices: tuple[Device, ...] = ()
        self._load: HostLoad | None = None

    def discover(self) -> tuple[Device, ...]:
        """Look at the machine again: affinity and limits may have changed.

        Raises:
            DeviceFileError: the reserve leaves nothing.
        """
        config = self._config
        facts = host_facts(self._root)
        cpus = _declared(config) if config.cpu else _measured(config, facts)
        model = "declared" if config.cpu else facts.cpu_model
        self._devices = (*_cpus(cpus, model=model), _pool(config.mem or _unreserved(config, facts)))
        return self._devices

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """`cpu` counts logical CPUs, `mem` bytes."""
        return {CPU: SlotType.COUNT, MEM: SlotType.BYTES}

    def attributes(self) -> Mapping[str, str]:
        """Nothing besides."""
        return {}

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:  # noqa: ARG002 - the kernel knows better
        """Load of the CPUs since the last call (from the second one on), and memory in use.

        What is declared is not measured.
        """
        before, self._load = self._load, host_load(self._root)
        found: list[DeviceReading] = []
        if not self._config.cpu and before is not None:
            found.extend(_cpu_readings(self._devices, before=before, now=self._load))
        if not self._config.mem and self._load.memory_total_bytes:
            used = self._load.memory_used_bytes
            percent = round(100 * used / self._load.memory_total_bytes, 1)
            found.append(DeviceReading(device_id=POOL, utilization_pct=percent, memory_used_bytes=used))
        return tuple(found)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """The numbers of the CPUs given, and the memory in bytes.

        OMP_NUM_THREADS and its like are left alone: what a plugin sets wins over what the user set.
        """
        numbers = (id.removeprefix("cpu") for id in held({CPU: spec.get(CPU, {})}, self._devices))
        memory = sum(spec.get(MEM, {}).values())
        return {"ALIQUOT_CPUS": ",".join(numbers), "ALIQUOT_MEMORY_BYTES": str(memory)}

    def close(self) -> None:
        """There is nothing to let go of."""


def _declared(config: HostConfig) -> dict[int, int | None]:
    count = config.cpu or 0
    return {number: number * config.numa_nodes // count for number in range(count)}


def _measured(config: HostConfig, facts: HostFacts) -> dict[int, int | None]:
    kept = facts.cpus[config.reserved_cpu :]
    if not kept:
        raise DeviceFileError(f"host: reserved-cpu {config.reserved_cpu} leaves none of {len(facts.cpus)} CPUs")
    return {number: facts.numa_nodes.get(number) for number in kept}


def _unreserved(config: HostConfig, facts: HostFacts) -> int:
    memory = facts.memory_bytes - config.reserved_mem
    if memory <= 0:
        raise DeviceFileError(f"host: reserved-mem {config.reserved_mem} leaves nothing of {facts.memory_bytes} bytes")
    return memory


def _cpus(numa_nodes: Mapping[int, int | None], *, model: str) -> tuple[Device, ...]:
    return tuple(
        Device(
            id=DeviceId(f"cpu{number}"),
            name=f"cpu{number}",
            kind="cpu",
            model=model,
            budget=1,
            costs={CPU: 1},
            quanta={},
            memory_bytes=0,
            numa_node=node,
        )
        for number, node in numa_nodes.items()
    )


def _pool(memory: int) -> Device:
    return Device(
        id=POOL, name="mem0", kind="mem", model="memory", budget=memory, costs={MEM: 1}, quanta={}, memory_bytes=memory
    )


def _cpu_readings(devices: Sequence[Device], *, before: HostLoad, now: HostLoad) -> list[DeviceReading]:
    found: list[DeviceReading] = []
    for device in devices:
        number = int(device.id.removeprefix("cpu")) if device.kind == "cpu" else -1
        passed = now.total_ticks.get(number, 0) - before.total_ticks.get(number, 0)
        if passed > 0:
            busy = now.busy_ticks[number] - before.busy_ticks.get(number, 0)
            percent = round(100 * min(max(busy / passed, 0.0), 1.0), 1)
            found.append(DeviceReading(device_id=device.id, utilization_pct=percent))
    return found
