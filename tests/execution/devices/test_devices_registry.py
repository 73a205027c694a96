"""Plugins by entry point, from a distribution made by the test."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.node import machine_source
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.execution.devices.registry import installed_plugins, load_plugins
from devices_files import write

PLUGIN = '''
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.slots import SlotType


class Plugin:
    """An accelerator that Aliquot does not know."""

    kind = "npu"

    def __init__(self, config):
        self._count = config.get("count", 1)

    def discover(self):
        return tuple(
            Device(id=f"npu-{n}", name=f"npu{n}", kind="npu", model="Example NPU", budget=1000,
                   costs={"npu.device": 1000}, quanta={}, memory_bytes=1024)
            for n in range(self._count)
        )

    def slot_types(self):
        return {"npu.device": SlotType.COUNT}

    def attributes(self):
        return {"npu.firmware": "7"}

    def readings(self, uses):
        return ()

    def environment(self, spec):
        return {"NPU_VISIBLE": ",".join(spec.get("npu.device", {}))}

    def close(self):
        pass


class Half:
    kind = "half"

    def __init__(self, config):
        pass

    def discover(self):
        return ()


def refuses(config):
    raise RuntimeError("the firmware is too old")
'''

Distribution = Callable[..., None]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    """Install a distribution: a module, and its entry points."""

    def install(points: dict[str, str], *, name: str = "aliquot-npu", module: str = "aliquot_npu_example") -> None:
        site = tmp_path / name
        write(site / f"{module}.py", PLUGIN)
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        write(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{point} = {target}\n" for point, target in points.items())
        write(info / "entry_points.txt", f"[aliquot.accelerators]\n{lines}")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


def test_the_built_in_plugins_are_installed() -> None:
    assert {"host", "mock", "nvml"} <= set(installed_plugins())
    loaded = load_plugins({"nvml": {}, "host": {"cpu": 4, "mem": "1g"}})
    assert [plugin.kind for plugin in loaded.plugins] == ["cuda", "host"]
    assert loaded.failures == ()


def test_devices_of_an_external_plugin_are_part_of_the_node(distribution: Distribution) -> None:
    distribution({"npu": "aliquot_npu_example:Plugin"})
    devices = DeviceSet(load_plugins({"npu": {"count": 2}, "host": {"cpu": 1, "mem": "1g"}}).plugins)
    assert [device.name for device in devices.discover()] == ["cpu0", "mem0", "npu0", "npu1"]
    assert "npu.device" in devices.slot_types()
    assert devices.attributes()["npu.firmware"] == "7"
    environment = devices.environment({"npu.device": {"npu-1": 1}})
    assert environment["NPU_VISIBLE"] == "npu-1"
    assert environment["ALIQUOT_GPU_MEMORY_BYTES"] == '{"npu-1": 1024}'


def test_without_configured_plugins_every_installed_plugin_except_mock_is_loaded(distribution: Distribution) -> None:
    distribution({"npu": "aliquot_npu_example:Plugin"})
    slots = machine_source().whole().devices.slot_types()
    assert {"npu.device", "cuda.device", "cpu", "mem"} <= set(slots)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("aliquot_npu_example:refuses", "RuntimeError: the firmware is too old"),
        ("aliquot_npu_example:Missing", "AttributeError"),
        ("aliquot_npu_absent:Plugin", "ModuleNotFoundError: No module named 'aliquot_npu_absent'"),
        ("aliquot_npu_example:Half", "missing: attributes, close, environment, readings, slot_types"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_reported_and_skipped(
    distribution: Distribution, target: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    distribution({"npu": target})
    loaded = load_plugins({"npu": {}, "host": {}})
    assert [plugin.kind for plugin in loaded.plugins] == ["host"]
    (failure,) = loaded.failures
    assert failure.name == "npu"
    assert words in failure.words
    assert "aliquot-npu 1.0" in failure.words
    assert words in caplog.text


def test_an_unknown_name_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(DeviceFileError, match=r"'nvlm' is installed; installed: .*host, mock, nvml"):
        load_plugins({"nvlm": {}})


def test_a_plugin_that_refuses_its_configuration_stops_the_start() -> None:
    with pytest.raises(DeviceFileError, match="unknown key 'cores'"):
        load_plugins({"host": {"cores": 4}})


def test_an_external_plugin_cannot_take_the_name_of_a_built_in_plugin(
    distribution: Distribution, caplog: pytest.LogCaptureFixture
) -> None:
    distribution({"nvml": "aliquot_npu_example:Plugin"}, name="aardvark")
    assert installed_plugins()["nvml"].value == "aliquot.execution.devices.nvml:NvmlPlugin"
    assert "ignoring aliquot_npu_example:Plugin of aardvark 1.0" in caplog.text
