"""NVML: through pynvml and ctypes, against a library that is compiled here."""

import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from aliquot.execution.devices.device_set import DeviceSet, changed
from aliquot.execution.devices.node import found
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot.execution.devices.plugin import DeviceFileError, DriverPlugin
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import DeviceHealth, DeviceProcess, Isolation
from devices_driver import FakeDriver
from devices_files import write

ONE = DeviceId("GPU-00000000-aaaa-0000-0000-000000000000")
TWO = DeviceId("GPU-11111111-bbbb-0000-0000-000000000000")
FIRST_SLICE = DeviceId("MIG-22222222-cccc-0000-0000-000000000000")
SECOND_SLICE = DeviceId("MIG-33333333-dddd-0000-0000-000000000000")
MIB = 1024**2


@pytest.fixture
def root(machine: Path) -> Path:
    """A machine in the first pid namespace, where GPU 0 is on NUMA node 1 and sysfs does not know about GPU 1."""
    write(machine / "sys/bus/pci/devices/0000:17:00.0/numa_node", "1\n")
    write(machine / "sys/bus/pci/devices/0000:ca:00.0/numa_node", "-1\n")
    (machine / "proc/self/ns").mkdir()
    (machine / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
    return machine


@pytest.fixture
def plugin(driver: FakeDriver, root: Path) -> Iterator[NvmlPlugin]:
    plugin = NvmlPlugin(root=root)
    yield plugin
    plugin.close()
    assert driver.users() == 0


def test_both_gpus_are_found_with_everything_the_driver_says(plugin: NvmlPlugin) -> None:
    one, two = plugin.discover()
    assert plugin.diagnosis == ""
    assert (one.id, one.name, one.model) == (ONE, "cuda0", "NVIDIA H100 80GB HBM3")
    assert (two.id, two.name) == (TWO, "cuda1")
    assert one.memory_bytes == 85520809984
    assert (one.budget, one.costs) == (1000, {"cuda.device": 1000, "cuda.shares": 1})
    assert one.quanta == {"cuda.shares": 10}
    assert (one.health, one.isolation, one.parent) == (DeviceHealth.HEALTHY, Isolation.NONE, None)
    assert plugin.attributes() == {"nvidia.driver_version": "580.95.05", "nvidia.cuda_version": "13.0"}


def test_the_numa_node_comes_from_the_pci_slot_or_else_from_the_driver(plugin: NvmlPlugin) -> None:
    one, two = plugin.discover()
    assert one.numa_node == 1
    assert two.numa_node == 64 + 2


@pytest.mark.parametrize("on_switch", [0, 1])
def test_linked_gpus_know_each_other_directly_or_over_a_switch(
    plugin: NvmlPlugin, driver: FakeDriver, on_switch: int
) -> None:
    driver.set("on_switch", on_switch)
    one, two = plugin.discover()
    assert (one.linked_to, two.linked_to) == ((TWO,), (ONE,))


def test_readings_omit_values_that_a_gpu_does_not_support(plugin: NvmlPlugin) -> None:
    plugin.discover()
    one, two = plugin.readings(())
    assert (one.device_id, one.utilization_pct, one.temperature_c, one.power_w) == (ONE, 37.0, 41.0, 123.5)
    assert one.memory_used_bytes == 100 * MIB
    assert (two.device_id, two.power_w, two.temperature_c) == (TWO, None, 41.0)
    assert two.memory_used_bytes == 600 * MIB
    assert (one.processes, two.processes) == ((), ())


@pytest.mark.parametrize("old_driver", [0, 1])
def test_a_process_with_compute_and_graphics_is_one_process(
    plugin: NvmlPlugin, driver: FakeDriver, old_driver: int
) -> None:
    driver.set("pid", 4242)
    driver.set("old_driver", old_driver)
    plugin.discover()
    one, two = plugin.readings(())
    assert one.processes == (DeviceProcess(pid=4242, memory_bytes=300 * MIB),)
    assert two.processes == ()


def test_a_gpu_process_is_listed_with_its_user_account(plugin: NvmlPlugin, driver: FakeDriver, root: Path) -> None:
    (root / "proc" / "4242").mkdir()
    driver.set("pid", 4242)
    plugin.discover()
    (process,) = plugin.readings(())[0].processes or ()
    assert process.user == pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        os.chown(root / "proc" / "4242", 3_999_999, -1)
        (process,) = plugin.readings(())[0].processes or ()
        assert process.user == "uid 3999999"


def test_processes_are_unknown_in_another_pid_namespace(plugin: NvmlPlugin, driver: FakeDriver, root: Path) -> None:
    driver.set("pid", 4242)
    (root / "proc/self/ns/pid").unlink()
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532999]")
    plugin.discover()
    assert [reading.processes for reading in plugin.readings(())] == [None, None]


def test_processes_are_unknown_behind_an_mps_server(plugin: NvmlPlugin, driver: FakeDriver, root: Path) -> None:
    driver.set("pid", 4242)
    write(root / "proc/4242/comm", "nvidia-cuda-mps\n")
    plugin.discover()
    assert [reading.processes for reading in plugin.readings(())] == [None, ()]


@pytest.mark.parametrize(
    ("switch", "value", "words"),
    [
        ("ecc", 3, "3 uncorrectable ECC errors since the driver was loaded"),
        ("rows_failed", 1, "a memory row could not be remapped"),
    ],
)
def test_a_broken_gpu_is_unhealthy_and_says_why(
    plugin: NvmlPlugin, driver: FakeDriver, switch: str, value: int, words: str
) -> None:
    driver.set(switch, value)
    one, two = plugin.discover()
    assert (one.health, two.health) == (DeviceHealth.UNHEALTHY, DeviceHealth.HEALTHY)
    assert plugin.attributes()["cuda0.trouble"] == words


def test_a_gpu_that_falls_off_the_bus_stays_as_unhealthy_and_comes_back(plugin: NvmlPlugin, driver: FakeDriver) -> None:
    before = plugin.discover()
    driver.set("lost", 1)
    one, two = plugin.discover()
    assert (two.id, two.health) == (TWO, DeviceHealth.UNHEALTHY)
    assert plugin.attributes()["cuda1.trouble"] == "the GPU does not answer"
    assert [reading.device_id for reading in plugin.readings(())] == [ONE]
    assert TWO in plugin.environment({SlotName("cuda.device"): {TWO: 1}})["CUDA_VISIBLE_DEVICES"]
    driver.set("lost", -1)
    assert plugin.discover() == before
    assert one.health is DeviceHealth.HEALTHY


def test_a_gpu_that_needs_a_reset_is_unhealthy(
    plugin: NvmlPlugin, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(handle: object) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_RESET_REQUIRED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", broken)
    assert {device.health for device in plugin.discover()} == {DeviceHealth.UNHEALTHY}
    assert plugin.attributes()["cuda0.trouble"] == "the GPU needs a reset"


def test_the_slices_of_a_gpu_in_mig_mode_replace_the_gpu(plugin: NvmlPlugin, driver: FakeDriver) -> None:
    driver.set("mig", 2)
    first, second, whole = plugin.discover()
    assert [device.id for device in (first, second, whole)] == [FIRST_SLICE, SECOND_SLICE, TWO]
    assert [device.name for device in (first, second, whole)] == ["cuda0/0", "cuda0/3", "cuda1"]
    assert first.parent == second.parent == ONE
    assert (first.isolation, first.processors, first.numa_node) == (Isolation.MIG, 60, 1)
    assert first.memory_bytes == 42144366592
    assert first.model == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert plugin.readings(())[0].utilization_pct is None
    assert plugin.environment({SlotName("cuda.device"): {SECOND_SLICE: 1}})["CUDA_VISIBLE_DEVICES"] == SECOND_SLICE


def test_a_gpu_with_mig_on_and_nothing_cut_gives_no_device(plugin: NvmlPlugin, driver: FakeDriver) -> None:
    driver.set("mig", 2)
    plugin.discover()
    driver.set("mig", 1)
    assert [device.id for device in plugin.discover()] == [TWO]


def test_a_job_sees_the_uuids_it_was_given_in_order(plugin: NvmlPlugin) -> None:
    plugin.discover()
    assert plugin.environment({SlotName("cuda.shares"): {TWO: 300, ONE: 200}}) == {
        "CUDA_VISIBLE_DEVICES": f"{ONE},{TWO}",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_VISIBLE_DEVICES": f"{ONE},{TWO}",
    }
    assert plugin.environment({})["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "its kernel module is not loaded"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "no permission to use the NVIDIA driver"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "differ in version"),
        (pynvml.NVML_ERROR_TIMEOUT, "cannot be used: Timeout"),
        (777, "cannot be used: an error of the fake"),
    ],
)
def test_a_driver_that_does_not_work_is_explained_in_one_line(
    plugin: NvmlPlugin, driver: FakeDriver, code: int, words: str
) -> None:
    driver.set("init", code)
    assert plugin.discover() == ()
    assert words in plugin.diagnosis
    assert "\n" not in plugin.diagnosis
    assert plugin.readings(()) == ()
    assert plugin.environment({})["CUDA_VISIBLE_DEVICES"] == ""


def test_a_missing_nvidia_library_is_not_an_error(load: Callable[[Callable[[str], object]], None]) -> None:
    def absent(name: str) -> object:
        raise OSError(f"{name}: cannot open shared object file")

    load(absent)
    plugin = NvmlPlugin()
    assert plugin.discover() == ()
    assert plugin.diagnosis == "no NVIDIA driver is installed here (libnvidia-ml.so.1 was not found)"
    assert plugin.attributes() == {}
    here = found()
    assert here.gpus == ()
    assert "no NVIDIA driver is installed here" in here.words
    assert [node.agent_id for node in here.nodes()] == ["demo-1", "demo-2"]


def test_a_driver_without_a_gpu_is_reported(plugin: NvmlPlugin, driver: FakeDriver) -> None:
    driver.set("gpus", 0)
    assert plugin.discover() == ()
    assert plugin.diagnosis == "the NVIDIA driver is loaded, but reports no GPU"


def test_devices_of_an_unloaded_driver_are_gone_and_the_driver_is_tried_again(
    plugin: NvmlPlugin, driver: FakeDriver
) -> None:
    devices = DeviceSet([plugin])
    before = devices.discover()
    driver.set("init", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    after = devices.discover()
    assert {device.health for device in after} == {DeviceHealth.GONE}
    assert not plugin.has_driver
    assert changed(before, after) == after
    assert driver.users() == 0
    driver.set("init", 0)
    assert devices.discover() == before
    assert plugin.has_driver
    assert isinstance(plugin, DriverPlugin)


def test_real_gpus_are_found_and_the_driver_is_released_afterwards(driver: FakeDriver) -> None:
    here = found()
    assert here.words == "2 x NVIDIA H100 80GB HBM3 through NVML (driver 580.95.05)"
    assert driver.users() == 0
    (source,) = here.nodes()
    node = source.whole()
    assert {ONE, TWO} < {device.id for device in node.devices.discover()}
    node.devices.close()
    assert driver.users() == 0


def test_the_nvml_plugin_accepts_no_settings() -> None:
    with pytest.raises(DeviceFileError, match="nvml: unknown key 'index'"):
        NvmlPlugin({"index": 1})


def test_the_nvidia_library_is_loaded_on_first_use_without_pynvml(library: Path) -> None:
    """In a process of its own, where the dynamic linker finds the compiled library under NVIDIA's name."""
    program = (
        "import ctypes, sys;"
        "ctypes.CDLL('libnvidia-ml.so.1').fake_reset();"
        "from aliquot.execution.devices.node import found;"
        "print('pynvml' in sys.modules);"
        "print(found().words)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"LD_LIBRARY_PATH": str(library.parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.splitlines() == ["False", "2 x NVIDIA H100 80GB HBM3 through NVML (driver 580.95.05)"]


def test_jobs_may_open_only_the_device_files_of_their_own_gpus_and_common_ones(plugin: NvmlPlugin) -> None:
    assert plugin.gate({}) is None
    plugin.discover()
    both = {SlotName("cuda.device"): {ONE: 1, TWO: 1}}
    gates = [plugin.gate(spec) for spec in ({}, {SlotName("cuda.shares"): {TWO: 300}}, both)]
    assert [gate.allowed for gate in gates if gate] == [(), (2,), (2, 3)]
    assert {(gate.major, gate.first, gate.last) for gate in gates if gate} == {(195, 0, 253)}


@pytest.mark.parametrize(("switch", "value"), [("mig", 2), ("old_driver", 2)])
def test_gpus_in_mig_mode_or_without_a_minor_number_have_no_device_gate(
    plugin: NvmlPlugin, driver: FakeDriver, switch: str, value: int
) -> None:
    driver.set(switch, value)
    plugin.discover()
    assert plugin.gate({}) is None


def test_a_gpu_that_is_lost_is_still_gated(plugin: NvmlPlugin, driver: FakeDriver) -> None:
    plugin.discover()
    driver.set("lost", 0)
    plugin.discover()
    gate = plugin.gate({SlotName("cuda.device"): {TWO: 1}})
    assert gate is not None
    assert gate.allowed == (2,)
