"""Mock accelerators: the file, the devices, the readings, the environment."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.execution.devices.mock import FULL_C, FULL_W, IDLE_C, IDLE_W, MockPlugin
from aliquot.execution.devices.node import demo_description
from aliquot.execution.devices.plugin import DeviceFileError, DeviceUse
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Isolation

GIB = 1024**3
ONE = DeviceId("c59395cd-ac91-4cd3-a1b0-3d2568aa2d01")
TWO = DeviceId("c59395cd-ac91-4cd3-a1b0-3d2568aa2d02")
SHARES, WHOLE = SlotName("cuda.shares"), SlotName("cuda.device")


def table(**changes: Any) -> dict[str, Any]:
    device = {"mother_uuid": "u-1", "model_name": "Example", "memory_size": "1g"} | changes.pop("device", {})
    return {"slot_name": "cuda", "device_plugin_name": "CUDADevice", "devices": [device]} | changes


def test_a_mock_file_with_two_gpus_is_read_completely(accelerators: Path) -> None:
    plugin = MockPlugin({"file": str(accelerators / "two_gpus.toml")})
    one, two = plugin.discover()
    assert plugin.kind == "cuda"
    assert (one.id, one.name, one.numa_node) == (ONE, "cuda0", 0)
    assert (two.id, two.name, two.numa_node) == (TWO, "cuda1", 1)
    assert (one.model, one.memory_bytes, one.processors, one.budget) == ("CUDA GPU", 2 * GIB, 108, 1000)
    assert one.costs == {WHOLE: 1000, SHARES: 1}
    assert one.quanta == {SHARES: 10}
    assert (one.capacity(WHOLE), one.capacity(SHARES)) == (1, 1000)
    assert (one.parent, one.isolation) == (None, Isolation.NONE)
    assert set(plugin.slot_types()) == {WHOLE, SHARES}
    assert plugin.attributes()["nvidia_driver"] == "580.95.05"
    assert plugin.attributes()["formats.shares.human_readable_name"] == "Fractional GPU"
    assert plugin.formats["shares"].number_format.round_length == 2


def test_eight_h100_are_in_natural_order(accelerators: Path) -> None:
    devices = MockPlugin({"file": accelerators / "eight_h100.toml"}).discover()
    assert [device.name for device in devices] == [f"cuda{n}" for n in range(8)]
    assert [device.numa_node for device in devices] == [0] * 4 + [1] * 4
    assert all(device.memory_bytes > 80 * 10**9 for device in devices)


def test_mock_links_come_from_the_file_and_demo_gpus_are_all_linked() -> None:
    entries = [{"mother_uuid": f"u-{n}", "model_name": "Example", "memory_size": 1} for n in range(2)]
    first, second = MockPlugin(table(devices=[entries[0] | {"linked_to": ["u-1"]}, entries[1]])).discover()
    assert (first.linked_to, second.linked_to) == (("u-1",), ())
    demo = MockPlugin(demo_description(1)).discover()
    assert all(set(device.linked_to) == {other.id for other in demo} - {device.id} for device in demo)


def test_more_than_ten_devices_stay_in_natural_order() -> None:
    entries = [{"mother_uuid": f"u-{n}", "model_name": "Example", "memory_size": 1} for n in range(12)]
    devices = MockPlugin(table(devices=entries)).discover()
    assert [device.name for device in devices] == [f"cuda{n}" for n in range(12)]


def test_slices_are_numbered_per_gpu_and_name_it_as_their_parent(accelerators: Path) -> None:
    mother, first, second, other = MockPlugin({"file": accelerators / "mig.toml"}).discover()
    assert (mother.parent, mother.isolation) == (None, Isolation.NONE)
    assert [device.id for device in (first, second, other)] == [
        f"{mother.id}/0",
        f"{mother.id}/1",
        "5d7f3a10-0c55-4a3e-8a4e-90b1f3d8c502/0",
    ]
    assert first.parent == second.parent == mother.id
    assert other.parent == "5d7f3a10-0c55-4a3e-8a4e-90b1f3d8c502"
    assert {first.isolation, second.isolation, other.isolation} == {Isolation.MIG}
    assert (first.name, first.processors, first.memory_bytes) == ("cuda1", 42, 20 * GIB)
    assert other.numa_node is None


@pytest.mark.parametrize(
    ("config", "place", "words"),
    [
        (table(colour="red"), "unknown key 'colour'", "valid keys: slot_name, device_plugin_name, devices"),
        (table(device={"memory_sise": 1}), "devices[0]: unknown key 'memory_sise'", "memory_size, is_mig_device"),
        (table(formats={"shares": {"unit": "GPU"}}), "formats.shares: unknown key 'unit'", "display_unit"),
        (
            table(formats={"x": {"display_unit": "", "human_readable_name": "", "number_format": {"decimal": True}}}),
            "formats.x.number_format: unknown key 'decimal'",
            "binary, round_length",
        ),
        ({"slot_name": "cuda", "device_plugin_name": "x"}, "devices: ", "required"),
        (table(devices=[]), "devices: ", "at least 1"),
        (table(slot_name="cpu"), "slot_name: ", "not a slot name"),
        (table(slot_name="CUDA"), "slot_name: ", "not a slot name"),
        (table(slot_name="cuda.x"), "slot_name: ", "not a slot name"),
        (table(device={"mother_uuid": "a,b"}), "devices[0].mother_uuid: ", "a name here has"),
        (table(device={"mother_uuid": ""}), "devices[0].mother_uuid: ", "a name here has"),
        (table(device={"mother_uuid": "u-1\n"}), "devices[0].mother_uuid: ", "a name here has"),
        (table(device={"memory_size": "2 apples"}), "devices[0].memory_size: ", "'2 apples' is not a size"),
        (table(device={"memory_size": 0}), "devices[0].memory_size: ", "greater than 0"),
        (table(device={"memory_size": -1}), "devices[0].memory_size: ", "greater than 0"),
        (table(device={"memory_size": 10**25}), "devices[0].memory_size: ", "less than or equal to 1125899906842624"),
        (table(device={"memory_size": "10e"}), "devices[0].memory_size: ", "less than or equal to 1125899906842624"),
        (table(device={"numa_node": 2**40}), "devices[0].numa_node: ", "less than or equal to 1023"),
        (table(device={"subproc_count": 2**40}), "devices[0].subproc_count: ", "less than or equal to 1000000"),
        (table(device={"linked_to": ["../x"]}), "devices[0].linked_to[0]: ", "a name here has"),
        (table(devices=table()["devices"] * 9000), "devices: ", "at most 8192"),
        (table(attributes={"": "x"}), "attributes", "at least 1 character"),
        (table(device={"numa_node": "0"}), "devices[0].numa_node: ", "valid integer"),
        (table(device={"numa_node": -2}), "devices[0].numa_node: ", "greater than or equal to -1"),
        (table(device={"is_mig_device": "yes"}), "devices[0].is_mig_device: ", "valid boolean"),
        (table(device={"subproc_count": 1.5}), "devices[0].subproc_count: ", "valid integer"),
        (table(devices=table()["devices"] * 2), "devices: ", "duplicate mother_uuid"),
        (table(attributes={"x": [1]}), "attributes.x", "valid"),
    ],
)
def test_a_wrong_table_is_refused_with_its_key(config: dict[str, Any], place: str, words: str) -> None:
    with pytest.raises(DeviceFileError) as caught:
        MockPlugin(config)
    assert f"mock accelerators: {place}" in str(caught.value)
    assert words in str(caught.value)


def test_all_errors_of_a_mock_file_are_reported_together_with_the_file_name(tmp_path: Path) -> None:
    path = tmp_path / "gpus.toml"
    path.write_text('slot_name = "mem"\ndevices = [{ mother_uuid = "u", model_name = "", memory_size = "1x" }]\n')
    with pytest.raises(DeviceFileError) as caught:
        MockPlugin({"file": path})
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert [line.split(": ")[1] for line in lines] == [
        "slot_name",
        "devices[0].model_name",
        "devices[0].memory_size",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"x = ", "not a TOML file"),
        (b"\xff\xfe", "not a TOML file"),
        (b"x = " + b"9" * 5000, "not a TOML file"),
    ],
)
def test_a_missing_or_unreadable_mock_file_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "gpus.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DeviceFileError, match=words) as caught:
        MockPlugin({"file": path})
    assert str(path) in str(caught.value)


def test_readings_follow_cpu_time_and_share(accelerators: Path) -> None:
    plugin = MockPlugin({"file": accelerators / "two_gpus.toml"})
    busy = DeviceUse(device_id=ONE, share_milli=600, cpu_s=5.0, alive_s=10.0)
    asleep = DeviceUse(device_id=ONE, share_milli=200, cpu_s=0.0, alive_s=10.0)
    one, two = plugin.readings([busy, asleep])
    assert one.utilization_pct == 30.0
    assert one.temperature_c == 45.0
    assert one.power_w == 259.0
    assert one.memory_used_bytes is not None
    assert 0 < one.memory_used_bytes < 2 * GIB * 800 // 1000
    assert (two.utilization_pct, two.memory_used_bytes, two.temperature_c, two.power_w) == (0.0, 0, IDLE_C, IDLE_W)
    assert plugin.readings([busy, asleep]) == (one, two)


@given(
    uses=st.lists(
        st.builds(
            DeviceUse,
            device_id=st.sampled_from([DeviceId("u-1"), DeviceId("other")]),
            share_milli=st.integers(0, 2000),
            cpu_s=st.floats(0, 1e9),
            alive_s=st.floats(0, 1e9),
        ),
        max_size=5,
    )
)
def test_readings_stay_within_what_the_device_has(uses: list[DeviceUse]) -> None:
    (reading,) = MockPlugin(table()).readings(uses)
    assert 0 <= (reading.utilization_pct or 0) <= 100
    assert 0 <= (reading.memory_used_bytes or 0) <= GIB
    assert IDLE_C <= (reading.temperature_c or 0) <= FULL_C
    assert IDLE_W <= (reading.power_w or 0) <= FULL_W


def test_a_job_sees_exactly_its_devices_in_natural_order(accelerators: Path) -> None:
    plugin = MockPlugin({"file": accelerators / "two_gpus.toml"})
    assert plugin.environment({SHARES: {TWO: 600, ONE: 600}}) == {
        "CUDA_VISIBLE_DEVICES": f"{ONE},{TWO}",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_VISIBLE_DEVICES": f"{ONE},{TWO}",
    }
    assert plugin.environment({WHOLE: {TWO: 1}})["CUDA_VISIBLE_DEVICES"] == TWO


def test_a_job_without_a_device_sees_none(accelerators: Path) -> None:
    plugin = MockPlugin({"file": accelerators / "two_gpus.toml"})
    for spec in ({}, {SlotName("cpu"): {DeviceId("cpu0"): 1}}, {SHARES: {DeviceId("elsewhere"): 10}}):
        environment = plugin.environment(spec)
        assert environment["CUDA_VISIBLE_DEVICES"] == ""
        assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"


@pytest.mark.parametrize(
    ("slot_name", "plugin_name", "variable", "value"),
    [
        ("rocm", "ROCmDevice", "ROCR_VISIBLE_DEVICES", "u-1"),
        ("gpu", "CUDADevice", "CUDA_VISIBLE_DEVICES", "u-1"),
        ("tpu", "TPU", "TPU_VISIBLE_CHIPS", "0"),
        ("xpu", "XPUDevice", "ZE_AFFINITY_MASK", "0"),
        ("hpu", "HPUDevice", "HABANA_VISIBLE_MODULES", "0"),
        ("npu", "NPUDevice", "ASCEND_RT_VISIBLE_DEVICES", "0"),
        ("neuron", "NeuronDevice", "NEURON_RT_VISIBLE_CORES", "0"),
        ("fpga", "FPGA", None, ""),
    ],
)
def test_the_plugin_name_says_which_runtime_is_imitated(
    slot_name: str, plugin_name: str, variable: str | None, value: str
) -> None:
    plugin = MockPlugin(table(slot_name=slot_name, device_plugin_name=plugin_name))
    environment = plugin.environment({SlotName(f"{slot_name}.device"): {DeviceId("u-1"): 1}})
    assert environment.get(variable) == value if variable else not environment
    if variable:
        assert plugin.environment({})[variable] == ""
