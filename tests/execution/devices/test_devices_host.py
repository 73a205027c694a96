"""CPUs and memory of the host."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aliquot.execution.devices.host import HostPlugin, cgroup_limits, cpu_numbers, host_facts
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device
from devices_files import write

GIB = 1024**3
CPU, MEM = SlotName("cpu"), SlotName("mem")


@pytest.fixture
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU affinity of 0..7, whatever this machine has."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def cpus(devices: tuple[Device, ...]) -> list[str]:
    return [device.id for device in devices if device.kind == "cpu"]


@pytest.mark.usefixtures("eight_cpus")
def test_the_host_has_a_device_for_every_cpu_and_one_memory_pool(machine: Path) -> None:
    plugin = HostPlugin(root=machine)
    devices = plugin.discover()
    assert cpus(devices) == [f"cpu{n}" for n in range(8)]
    assert [device.numa_node for device in devices[:-1]] == [0] * 4 + [1] * 4
    assert {(device.model, device.budget) for device in devices[:-1]} == {("Example CPU 9000", 1)}
    pool = devices[-1]
    assert (pool.id, pool.kind, pool.budget) == ("mem0", "mem", 16 * GIB - 512 * 1024**2)
    assert pool.capacity(MEM) == pool.budget
    assert pool.numa_node is None


@pytest.mark.usefixtures("eight_cpus")
def test_reserved_amounts_are_kept_back(machine: Path) -> None:
    devices = HostPlugin({"reserved-cpu": 2, "reserved-mem": "4g"}, root=machine).discover()
    assert cpus(devices) == [f"cpu{n}" for n in range(2, 8)]
    assert devices[-1].budget == 12 * GIB


@pytest.mark.usefixtures("eight_cpus")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"reserved-cpu": 8}, "reserved-cpu 8 leaves none of 8 CPUs"),
        ({"reserved-mem": "16g"}, "leaves nothing of 17179869184 bytes"),
        ({"cpus": 1}, "unknown key 'cpus'; valid keys: cpu, mem, reserved-cpu, reserved-mem, numa-nodes"),
        ({"cpu": 0}, "cpu: "),
        ({"cpu": "4"}, "cpu: "),
        ({"mem": "lots"}, "'lots' is not a size"),
        ({"mem": "0"}, "mem: "),
    ],
)
def test_a_wrong_table_is_refused(machine: Path, config: dict[str, object], words: str) -> None:
    with pytest.raises(DeviceFileError, match="host: ") as caught:
        HostPlugin(config, root=machine).discover()
    assert words in str(caught.value)


def test_declared_amounts_do_not_depend_on_the_machine(tmp_path: Path) -> None:
    plugin = HostPlugin({"cpu": 64, "mem": "512g", "numa-nodes": 2}, root=tmp_path)
    devices = plugin.discover()
    assert len(devices) == 65
    assert [device.numa_node for device in devices[:-1]] == [0] * 32 + [1] * 32
    assert devices[-1].budget == 512 * GIB
    assert plugin.readings(()) == ()


def test_only_cpus_in_the_affinity_of_the_process_are_devices() -> None:
    """In a process of its own, which the kernel pins to one CPU."""
    cpu = max(os.sched_getaffinity(0))
    program = (
        f"import os; os.sched_setaffinity(0, {{{cpu}}});"
        "from aliquot.execution.devices.host import HostPlugin;"
        "import json; print(json.dumps([device.id for device in HostPlugin().discover()]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ran.stdout) == [f"cpu{cpu}", "mem0"]


def test_this_machine_is_read() -> None:
    facts = host_facts()
    assert set(facts.cpus) <= os.sched_getaffinity(0)
    assert facts.memory_bytes > 64 * 1024**2
    assert facts.cpu_model


@pytest.mark.parametrize(
    ("files", "cpus_limit", "memory_limit"),
    [
        ({}, None, None),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None, None),
        ({"cpu.max": "250000 100000", "memory.max": str(4 * GIB)}, 2.5, 4 * GIB),
        ({"a/b/cpu.max": "100000 100000", "a/cpu.max": "300000 100000"}, 1.0, None),
        ({"a/memory.max": str(GIB), "a/b/memory.max": str(2 * GIB)}, None, GIB),
        ({"other/cpu.max": "100000 100000"}, None, None),
    ],
)
def test_limits_of_cgroup_version_2(
    machine: Path, files: dict[str, str], cpus_limit: float | None, memory_limit: int | None
) -> None:
    write(machine / "proc/self/cgroup", "0::/a/b\n")
    for name, text in files.items():
        write(machine / "sys/fs/cgroup" / name, text)
    limits = cgroup_limits(machine)
    assert (limits.cpus, limits.memory_bytes) == (cpus_limit, memory_limit)


def test_limits_of_cgroup_version_1_beside_version_2(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/host/only/path\n0::/unit\n")
    write(machine / "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000")
    write(machine / "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    write(machine / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1")
    write(machine / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
    write(machine / "sys/fs/cgroup/memory/memory.limit_in_bytes", str(3 * GIB))
    write(machine / "sys/fs/cgroup/unified/unit/memory.max", str(5 * GIB))
    limits = cgroup_limits(machine)
    assert (limits.cpus, limits.memory_bytes) == (1.5, 3 * GIB)


@pytest.mark.parametrize(("quota", "counted"), [("50000", 1), ("150000", 1), ("299999", 2), ("9900000", 8)])
def test_a_quota_counts_like_fewer_cpus(machine: Path, quota: str, counted: int) -> None:
    write(machine / "sys/fs/cgroup/cpu.max", f"{quota} 100000")
    write(machine / "sys/fs/cgroup/memory.max", str(2 * GIB))
    facts = host_facts(machine, affinity=frozenset(range(8)))
    assert facts.cpus == tuple(range(counted))
    assert facts.memory_bytes == 2 * GIB


@pytest.mark.usefixtures("eight_cpus")
def test_readings_are_the_load_since_the_last_call(machine: Path) -> None:
    plugin = HostPlugin(root=machine)
    plugin.discover()
    (memory,) = plugin.readings(())
    assert (memory.device_id, memory.memory_used_bytes, memory.utilization_pct) == ("mem0", 4 * GIB, 25.0)
    rows = ["cpu0 40 0 0 20 0 0 0 0 0 0", "cpu1 10 0 0 60 10 0 0 0 0 0", "cpu2 5 0 0 5 0 0 0 0 0 0"]
    write(machine / "proc/stat", "cpu  1 1 1 1\n" + "\n".join(rows) + "\n")
    found = {reading.device_id: reading.utilization_pct for reading in plugin.readings(())}
    assert found == {"cpu0": 75.0, "cpu1": 0.0, "mem0": 25.0}


def test_a_job_gets_its_cpus_and_memory_in_its_environment(tmp_path: Path) -> None:
    plugin = HostPlugin({"cpu": 16, "mem": "8g"}, root=tmp_path)
    plugin.discover()
    spec = {CPU: {DeviceId("cpu10"): 1, DeviceId("cpu9"): 1}, MEM: {DeviceId("mem0"): GIB}}
    assert plugin.environment(spec) == {"ALIQUOT_CPUS": "9,10", "ALIQUOT_MEMORY_BYTES": str(GIB)}
    assert plugin.environment({}) == {"ALIQUOT_CPUS": "", "ALIQUOT_MEMORY_BYTES": "0"}


@pytest.mark.parametrize(
    ("listed", "numbers"), [("", ()), ("0\n", (0,)), ("0-3", (0, 1, 2, 3)), ("0-1,8,10-11\n", (0, 1, 8, 10, 11))]
)
def test_cpu_lists_of_the_operating_system_are_parsed(listed: str, numbers: tuple[int, ...]) -> None:
    assert cpu_numbers(listed) == numbers
