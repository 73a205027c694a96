"""Several plugins combined into one."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import pytest
from msgspec.structs import replace

from aliquot.core.allocation.node_partition import DeviceSelection
from aliquot.execution.devices.device_set import DeviceSet, changed
from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.mock import MockPlugin
from aliquot.execution.devices.node import demo_cluster, file_source
from aliquot.execution.devices.plugin import DeviceFileError, DevicePlugin, DeviceUse, grant_variables
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading, ResourceSpec
from aliquot_schema.resources.slots import SlotType

ONE = DeviceId("c59395cd-ac91-4cd3-a1b0-3d2568aa2d01")
TWO = DeviceId("c59395cd-ac91-4cd3-a1b0-3d2568aa2d02")
SHARES, WHOLE, CPU, MEM = SlotName("cuda.shares"), SlotName("cuda.device"), SlotName("cpu"), SlotName("mem")


def npu(number: int, **changes: object) -> Device:
    name = f"npu{number}"
    device = Device(
        id=DeviceId(name),
        name=name,
        kind="npu",
        model="Example",
        budget=2000,
        costs={SlotName("npu.device"): 1000},
        quanta={},
        memory_bytes=1000,
    )
    return replace(device, **changes)


class Scripted:
    """An out-of-tree plugin whose hardware the test controls."""

    def __init__(self, kind: str = "npu", variable: str = "NPU") -> None:
        self.kind = kind
        self.there: tuple[Device, ...] = ()
        self.error: Exception | None = None
        self._variable = variable

    def discover(self) -> tuple[Device, ...]:
        self._fail()
        return self.there

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        return {SlotName("npu.device"): SlotType.COUNT}

    def attributes(self) -> Mapping[str, str]:
        return {"from": self.kind}

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        self._fail()
        return tuple(DeviceReading(device_id=use.device_id) for use in uses)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        return {self._variable: self.kind}

    def close(self) -> None:
        self._fail()

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def two_gpus(accelerators: Path) -> DeviceSet:
    return DeviceSet((HostPlugin({"cpu": 12, "mem": "8g"}), MockPlugin({"file": accelerators / "two_gpus.toml"})))


def test_a_device_set_is_a_plugin_itself(two_gpus: DeviceSet) -> None:
    assert isinstance(two_gpus, DevicePlugin)
    assert two_gpus.kind == "set"


def test_devices_of_all_plugins_are_in_natural_order(two_gpus: DeviceSet) -> None:
    names = [device.name for device in two_gpus.discover()]
    assert names == [*(f"cpu{n}" for n in range(12)), "cuda0", "cuda1", "mem0"]
    assert two_gpus.devices() == two_gpus.discover()
    assert set(two_gpus.slot_types()) == {CPU, MEM, SHARES, WHOLE}
    assert two_gpus.attributes()["cuda_runtime"] == "13.0"


def test_a_job_gets_all_its_granted_devices_in_its_environment(two_gpus: DeviceSet) -> None:
    two_gpus.discover()
    spec = {CPU: {DeviceId("cpu10"): 1}, MEM: {DeviceId("mem0"): 1024}, SHARES: {ONE: 600, TWO: 605}}
    environment = two_gpus.environment(spec)
    assert environment["CUDA_VISIBLE_DEVICES"] == f"{ONE},{TWO}"
    assert environment["ALIQUOT_DEVICE_IDS"] == f"{ONE},{TWO}"
    assert environment["ALIQUOT_DEVICE_NAMES"] == "cuda0,cuda1"
    assert environment["ALIQUOT_CPUS"] == "10"
    assert environment["ALIQUOT_MEMORY_BYTES"] == "1024"
    assert json.loads(environment["ALIQUOT_GPU_SHARES"]) == {ONE: "0.60", TWO: "0.605"}
    assert json.loads(environment["ALIQUOT_GPU_MEMORY_BYTES"]) == {
        ONE: 2 * 1024**3 * 600 // 1000,
        TWO: 2 * 1024**3 * 605 // 1000,
    }


def test_a_job_without_devices_gets_empty_device_variables(two_gpus: DeviceSet) -> None:
    two_gpus.discover()
    environment = two_gpus.environment({})
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["ALIQUOT_DEVICE_IDS"] == environment["ALIQUOT_DEVICE_NAMES"] == ""
    assert environment["ALIQUOT_GPU_SHARES"] == environment["ALIQUOT_GPU_MEMORY_BYTES"] == "{}"


def test_the_reported_gpu_memory_is_the_granted_part_of_the_budget() -> None:
    """Two units of 1000 bytes: one is half of the budget."""
    variables = grant_variables({SlotName("npu.device"): {DeviceId("npu1"): 1}}, [npu(1), npu(2)])
    assert variables == {
        "ALIQUOT_DEVICE_IDS": "npu1",
        "ALIQUOT_DEVICE_NAMES": "npu1",
        "ALIQUOT_GPU_SHARES": '{"npu1": "1.00"}',
        "ALIQUOT_GPU_MEMORY_BYTES": '{"npu1": 500}',
    }


def test_a_device_that_vanishes_is_gone_and_can_come_back() -> None:
    plugin = Scripted()
    plugin.there = (npu(2), npu(10))
    devices = DeviceSet([plugin])
    before = devices.discover()
    plugin.there = (npu(10),)
    after = devices.discover()
    assert [(device.name, device.health) for device in after] == [
        ("npu2", DeviceHealth.GONE),
        ("npu10", DeviceHealth.HEALTHY),
    ]
    assert changed(before, after) == after[:1]
    assert devices.discover() == after
    plugin.there = (npu(2), npu(10))
    assert devices.discover() == before


class Driven(Scripted):
    """A plugin that asks a driver."""

    has_driver = True


def restarted(plugin: Scripted, *, part: DeviceSelection | None = None) -> DeviceSet:
    """The devices of a restarted agent that had two before, and now has those of the plugin."""
    devices = DeviceSet([plugin], part=part or DeviceSelection())
    devices.recall((npu(1), npu(2)))
    return devices


def test_a_held_device_that_is_no_longer_configured_is_leaving_until_released() -> None:
    plugin = Scripted()
    plugin.there = (npu(1), npu(3))
    devices = restarted(plugin)
    held = frozenset({DeviceId("npu1"), DeviceId("npu2"), DeviceId("npu9")})
    leaving = npu(2, health=DeviceHealth.LEAVING)
    assert devices.discover(held=held) == (npu(1), leaving, npu(3))
    assert devices.devices() == (npu(1), leaving, npu(3))
    assert grant_variables({SlotName("npu.device"): {DeviceId("npu2"): 1}}, devices.devices())[
        "ALIQUOT_GPU_SHARES"
    ] == ('{"npu2": "1.00"}')
    assert devices.discover() == (npu(1), npu(3))


@pytest.mark.parametrize("plugin", [Scripted(), Driven()])
def test_a_held_device_that_is_excluded_is_leaving_though_its_plugin_finds_it(plugin: Scripted) -> None:
    plugin.there = (npu(1), npu(2))
    devices = restarted(plugin, part=DeviceSelection(exclude=frozenset({"npu2"})))
    assert devices.discover(held={DeviceId("npu2")}) == (npu(1), npu(2, health=DeviceHealth.LEAVING))


@pytest.mark.parametrize(("has_driver", "health"), [(True, DeviceHealth.GONE), (False, DeviceHealth.UNHEALTHY)])
def test_a_held_device_missing_from_its_driver_is_gone_or_unhealthy_without_a_driver(
    has_driver: bool, health: DeviceHealth
) -> None:
    plugin = Driven()
    plugin.has_driver = has_driver
    plugin.there = (npu(1),) if has_driver else ()
    found = restarted(plugin).discover(held={DeviceId("npu2")})
    assert found[-1] == npu(2, health=health)


def test_held_devices_of_a_plugin_that_fails_at_start_are_unhealthy_and_not_leaving() -> None:
    plugin = Scripted()
    plugin.error = OSError("the card is on fire")
    assert restarted(plugin).discover(held={DeviceId("npu2")}) == (npu(2, health=DeviceHealth.UNHEALTHY),)


def test_a_held_device_of_a_kind_that_is_no_longer_configured_is_leaving() -> None:
    assert restarted(Scripted("tpu")).discover(held={DeviceId("npu2")}) == (npu(2, health=DeviceHealth.LEAVING),)


def test_new_and_unhealthy_devices_are_changes() -> None:
    before = (npu(1), npu(2))
    after = (npu(1), npu(2, health=DeviceHealth.UNHEALTHY), npu(3))
    assert changed(before, after) == after[1:]
    assert changed(after, after) == ()


def test_a_plugin_that_fails_leaves_the_others_alone(two_gpus: DeviceSet, caplog: pytest.LogCaptureFixture) -> None:
    plugin = Scripted()
    plugin.there = (npu(1),)
    devices = DeviceSet([plugin, HostPlugin({"cpu": 1, "mem": "1g"})])
    before = devices.discover()
    plugin.error = OSError("the card is on fire")
    for _ in range(3):
        after = devices.discover()
    assert [(device.name, device.health) for device in after if device.kind == "npu"] == [
        ("npu1", DeviceHealth.UNHEALTHY)
    ]
    assert len(after) == len(before)
    assert devices.readings([DeviceUse(device_id=DeviceId("npu1"), share_milli=1, cpu_s=0, alive_s=1)]) == ()
    assert devices.failures == {"npu": "OSError: the card is on fire"}
    assert len(caplog.records) == 1
    devices.close()
    plugin.error = None
    assert devices.discover() == before
    assert devices.failures == {}


def test_a_wrong_configuration_stops_the_start_but_not_a_running_agent() -> None:
    plugin = Scripted()
    plugin.error = DeviceFileError("no such card")
    devices = DeviceSet([plugin])
    with pytest.raises(DeviceFileError, match="no such card"):
        devices.discover()
    plugin.error = None
    devices.discover()
    plugin.error = DeviceFileError("no such card")
    assert devices.discover() == ()
    assert devices.failures == {"npu": "DeviceFileError: no such card"}


def test_uses_go_to_the_plugin_that_has_the_device() -> None:
    first, second = Scripted("npu"), Scripted("tpu")
    first.there, second.there = (npu(1),), (npu(2, kind="tpu"),)
    devices = DeviceSet([first, second])
    devices.discover()
    uses = [DeviceUse(device_id=DeviceId(id), share_milli=1, cpu_s=0, alive_s=1) for id in ("npu2", "npu1", "npu3")]
    assert [reading.device_id for reading in devices.readings(uses)] == ["npu1", "npu2"]


def test_two_plugins_of_one_kind_are_refused(accelerators: Path) -> None:
    with pytest.raises(DeviceFileError, match="have the kind 'cuda'"):
        DeviceSet([MockPlugin({"file": accelerators / name}) for name in ("two_gpus.toml", "mig.toml")])


def test_a_device_id_reported_by_two_plugins_is_refused() -> None:
    first, second = Scripted("npu"), Scripted("tpu")
    first.there = second.there = (npu(1),)
    with pytest.raises(DeviceFileError, match="npu1 is reported by two plugins: npu and tpu"):
        DeviceSet([first, second]).discover()


def test_the_plugin_of_the_granted_device_overrides_environment_variables_of_others() -> None:
    first, second = Scripted("npu", "SAME"), Scripted("tpu", "SAME")
    first.there, second.there = (npu(1),), (npu(2, kind="tpu"),)
    for plugins in ([first, second], [second, first]):
        devices = DeviceSet(plugins)
        devices.discover()
        assert devices.environment({SlotName("npu.device"): {DeviceId("npu1"): 1}})["SAME"] == "npu"
        assert devices.environment({SlotName("npu.device"): {DeviceId("npu2"): 1}})["SAME"] == "tpu"


def test_an_agent_of_a_file_is_named_after_it(accelerators: Path) -> None:
    one = file_source((accelerators / "two_gpus.toml",), host={"cpu": 4, "mem": "1g"}).whole()
    other = file_source((accelerators / "eight_h100.toml",))
    assert one.agent_id == f"{one.node.hostname}-two_gpus"
    assert one.node == other.node
    assert [device.kind for device in one.devices.discover()].count("cpu") == 4


def test_the_demo_cluster_is_the_same_every_time() -> None:
    first, second = demo_cluster()
    assert (first.agent_id, second.agent_id) == ("demo-1", "demo-2")
    assert first.node.node_id != second.node.node_id
    gpus = [[device for device in node.devices.discover() if device.kind == "cuda"] for node in (first, second)]
    assert [len(found) for found in gpus] == [8, 8]
    assert len({device.id for found in gpus for device in found}) == 16
    assert [device.numa_node for device in gpus[0]] == [0] * 4 + [1] * 4
    assert gpus[0] == [device for device in demo_cluster()[0].devices.discover() if device.kind == "cuda"]
    assert sum(device.capacity(CPU) for device in first.devices.devices()) == 64
    assert sum(device.capacity(MEM) for device in first.devices.devices()) == 512 * 1024**3
    assert first.devices.attributes()["formats.shares.display_unit"] == "GPU"


def test_an_impossible_reading_is_omitted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Scripted):
        def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
            del uses
            return (
                DeviceReading(device_id=DeviceId("npu0"), power_w=4_294_967.0),
                DeviceReading(device_id=DeviceId("npu1"), power_w=300.0),
            )

    plugin = Odd()
    plugin.there = (npu(0), npu(1))
    devices = DeviceSet([plugin])
    devices.discover()
    for _ in range(2):
        assert [reading.device_id for reading in devices.readings(())] == ["npu1"]
    assert [record.message for record in caplog.records] == [
        "device plugin npu: reading omitted: reading of 'npu0': power_w is 4294967.0; 0 to 100,000 is allowed"
    ]


def test_devices_stay_healthy_when_they_are_discovered_while_their_driver_is_measured() -> None:
    is_measuring, may_answer = Event(), Event()

    class Driven(Scripted):
        has_driver = True

        def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
            is_measuring.set()
            may_answer.wait(5)
            return super().readings(uses)

    plugin = Driven()
    plugin.there = (npu(0),)
    devices = DeviceSet([plugin])
    devices.discover()
    with ThreadPoolExecutor() as threads:
        measured = threads.submit(devices.readings, [])
        is_measuring.wait()
        found = threads.submit(devices.discover)
        wait([found], timeout=0.2)
        may_answer.set()
        assert [device.health for device in found.result()] == [DeviceHealth.HEALTHY]
        measured.result()
    assert devices.failures == {}
