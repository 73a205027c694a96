"""Real plugins on a node divided by `aliquot.toml`, and invalid settings in that file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aliquot.app.agents import agents_of
from aliquot.errors import ConfigurationError
from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.mock import MockPlugin
from aliquot.execution.devices.node import NodeSource, node_identity
from aliquot.execution.devices.partitioning import DividedNode, Division, divide, part_of
from aliquot.execution.devices.plugin import DeviceFileError, DevicePlugin, DeviceUse, PartitioningPlugin
from aliquot.settings import read_settings
from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.ids import AgentId, DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading, ResourceSpec
from aliquot_schema.resources.slots import SlotType
from devices_files import write

TWO_AGENTS = '[[agents]]\nid = "agent-1"\n[[agents]]\nid = "agent-2"\n'
MANUAL = """
[resource]
allocation-mode = "manual"
[[agents]]
id = "agent-1"
[agents.resource.allocations]
cpu = ["0", "1", "2"]
mem = "3G"
[agents.resource.allocations.devices]
cuda = ["cuda0"]
[[agents]]
id = "agent-2"
"""


class Npus:
    """Four devices with a partitioner of their own, which allots them like cards."""

    kind = "npu"

    def __init__(self, names: Sequence[str] = ("npu0", "npu1", "npu2", "npu3")) -> None:
        self.names = list(names)
        self.fault: Exception | None = None
        self.health = DeviceHealth.HEALTHY
        self.closed = 0

    def discover(self) -> tuple[Device, ...]:
        slot = SlotName("npu.device")
        return tuple(
            Device(
                id=DeviceId(name),
                name=name,
                kind="npu",
                model="",
                budget=1000,
                costs={slot: 1000},
                quanta={},
                memory_bytes=0,
                health=self.health,
            )
            for name in self.names
        )

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        return {SlotName("npu.device"): SlotType.COUNT}

    def attributes(self) -> Mapping[str, str]:
        return {}

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        return ()

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        self.closed += 1

    def partition(self, devices: Sequence[Device], *, agents: Sequence[AgentId]) -> Sequence[Sequence[Device]]:
        if self.fault:
            raise self.fault
        return [devices[index :: len(agents)] for index in range(len(agents))]


@pytest.fixture
def source(accelerators: Path) -> NodeSource:
    return source_of(lambda: MockPlugin({"file": accelerators / "two_gpus.toml"}))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("ALIQUOT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ALIQUOT_CONFIG", str(tmp_path / "aliquot.toml"))
    return tmp_path / "aliquot.toml"


def source_of(*makers: Any) -> NodeSource:
    def plugins() -> tuple[DevicePlugin, ...]:
        return (*(make() for make in makers), HostPlugin({"cpu": 5, "mem": "100g"}))

    return NodeSource(agent_id=AgentId("whole"), node=node_identity(), plugins=plugins)


def seen(divided: DividedNode) -> dict[str, list[str]]:
    """The devices that each agent finds, by agent."""
    return {
        agent.agent_id: [f"{device.name}:{device.budget}" if device.kind == "mem" else device.name for device in found]
        for agent in divided.agents
        if (found := agent.devices.discover()) is not None
    }


def division(config: Path, text: str) -> Division:
    write(config, text)
    return read_settings().division


def test_without_named_agents_a_node_is_one_agent_without_scaling_factors(source: NodeSource, config: Path) -> None:
    (agent,) = divide(source, division(config, "")).agents
    assert (agent.agent_id, agent.allocation_mode, agent.scaling_factor) == ("whole", AllocationMode.SHARED, {})
    assert len(agent.devices.discover()) == 8


def test_shared_agents_see_all_devices_with_scaling_factor_one(source: NodeSource, config: Path) -> None:
    divided = divide(source, division(config, TWO_AGENTS))
    everything = ["cpu0", "cpu1", "cpu2", "cpu3", "cpu4", "cuda0", "cuda1", f"mem0:{100 << 30}"]
    assert seen(divided) == {"agent-1": everything, "agent-2": everything}
    for agent in divided.agents:
        assert agent.allocation_mode is AllocationMode.SHARED
        assert agent.scaling_factor == {"cpu": "1", "mem": "1", "cuda.device": "1", "cuda.shares": "1"}


def test_auto_split_agents_have_parts_of_their_own(source: NodeSource, config: Path) -> None:
    text = '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS + '[[agents]]\nid = "agent-3"\n'
    divided = divide(source, division(config, text))
    assert seen(divided) == {
        "agent-1": ["cpu0", "cpu1", "cuda0", "mem0:35791394134"],
        "agent-2": ["cpu2", "cpu3", "cuda1", "mem0:35791394133"],
        "agent-3": ["cpu4", "mem0:35791394133"],
    }
    assert [agent.scaling_factor["cuda.device"] for agent in divided.agents] == ["0.5", "0.5", "0"]
    assert [agent.scaling_factor["cpu"] for agent in divided.agents] == ["0.4", "0.4", "0.2"]
    assert divided.warnings == ()


def test_a_node_without_gpus_is_divided_by_cpus_and_memory(config: Path) -> None:
    divided = divide(source_of(), division(config, '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS))
    assert [len(found) for found in seen(divided).values()] == [4, 3]


def test_manual_agents_get_the_named_devices_and_a_warning_lists_the_rest(source: NodeSource, config: Path) -> None:
    divided = divide(source, division(config, MANUAL))
    assert seen(divided) == {"agent-1": ["cpu0", "cpu1", "cpu2", "cuda0", f"mem0:{3 << 30}"], "agent-2": []}
    assert divided.warnings == ("no agent has cpu3, cpu4, cuda1, 97g of mem0; no job can use them",)
    first, second = divided.agents
    assert first.scaling_factor == {"cpu": "0.6", "mem": "0.03", "cuda.device": "0.5", "cuda.shares": "0.5"}
    assert set(second.scaling_factor.values()) == {"0"}
    assert set(second.devices.slot_types()) == set(first.devices.slot_types())


def test_excluded_devices_belong_to_no_agent_and_do_not_count_in_scaling_factors(
    source: NodeSource, config: Path
) -> None:
    excluded = '[devices]\nexclude = ["cuda0", "cpu0"]\n'
    assert seen(divide(source, division(config, excluded)))["whole"][:5] == ["cpu1", "cpu2", "cpu3", "cpu4", "cuda1"]
    text = excluded + '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS
    divided = divide(source, division(config, text))
    assert seen(divided)["agent-1"][:3] == ["cpu1", "cpu2", "cuda1"]
    assert divided.agents[0].scaling_factor["cuda.device"] == "1"


def test_devices_that_are_not_included_are_kept_out(source: NodeSource, config: Path) -> None:
    included = '[devices]\ninclude = ["c59395cd-ac91-4cd3-a1b0-3d2568aa2d02"]\n' + TWO_AGENTS
    assert "cuda0" not in seen(divide(source, division(config, included)))["agent-1"]


def test_an_agent_in_its_own_process_gets_the_same_part_of_the_node(source: NodeSource, config: Path) -> None:
    tables = division(config, '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS)
    together = seen(divide(source, tables))
    for name, devices in together.items():
        assert seen(part_of(source, tables, agent_id=AgentId(name))) == {name: devices}
    with pytest.raises(DeviceFileError, match="divided among agent-1, agent-2; choose one of them with --id"):
        part_of(source, tables, agent_id=None)
    renamed = part_of(source, Division(), agent_id=AgentId("other"))
    assert list(seen(renamed)) == ["other"]


def test_a_plugin_may_bring_its_own_partitioner(config: Path) -> None:
    plugin = Npus()
    assert isinstance(plugin, PartitioningPlugin)
    divided = divide(
        source_of(lambda: plugin), division(config, '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS)
    )
    assert [names[3:5] if len(names) > 5 else names[2:4] for names in seen(divided).values()] == [
        ["mem0:53687091200", "npu0"],
        ["mem0:53687091200", "npu1"],
    ]
    assert plugin.closed == 1


def test_a_partitioner_that_fails_keeps_the_agents_from_starting(config: Path) -> None:
    plugin = Npus()
    plugin.fault = RuntimeError("no cards")
    tables = division(config, '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS)
    with pytest.raises(DeviceFileError, match="plugin npu cannot divide its devices: RuntimeError: no cards"):
        divide(source_of(lambda: plugin), tables)


def test_a_part_stays_the_same_while_devices_come_go_and_break(config: Path) -> None:
    plugin = Npus(["npu0", "npu1"])
    divided = divide(
        source_of(lambda: plugin), division(config, '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS)
    )
    (first, second) = (agent.devices for agent in divided.agents)
    assert "npu0" in {device.id for device in first.discover()}
    plugin.names = ["npu1", "npu2"]
    plugin.health = DeviceHealth.UNHEALTHY
    assert {device.id: device.health for device in first.discover() if device.kind == "npu"} == {
        "npu0": DeviceHealth.GONE
    }
    assert {device.id: device.health for device in second.discover() if device.kind == "npu"} == {
        "npu1": DeviceHealth.UNHEALTHY
    }


def test_a_kernel_gets_the_cpus_and_memory_of_its_agents_part(source: NodeSource, config: Path) -> None:
    divided = divide(source, division(config, MANUAL))
    devices = divided.agents[0].devices
    devices.discover()
    spec = {SlotName("cpu"): {DeviceId("cpu1"): 1}, SlotName("mem"): {DeviceId("mem0/agent-1"): 1 << 30}}
    variables = devices.environment(spec)
    assert (variables["ALIQUOT_CPUS"], variables["ALIQUOT_MEMORY_BYTES"]) == ("1", str(1 << 30))
    assert variables["CUDA_VISIBLE_DEVICES"] == ""


ALLOCATIONS = '[resource]\nallocation-mode = "manual"\n[[agents]]\nid = "a"\n[agents.resource.allocations]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[resource]\nallocation-mode = "split"\n', "resource.allocation-mode: Input should be 'shared', 'auto-split'"),
        ('[resource]\nmode = "shared"\n', "resource: unknown key 'mode'; valid keys: allocation-mode"),
        ('[devices]\nonly = ["cuda0"]\n', "devices: unknown key 'only'; valid keys: include, exclude"),
        ('[[agents]]\nid = "a"\nname = "b"\n', "agents[0]: unknown key 'name'; valid keys: id, resource"),
        (ALLOCATIONS + "gpu = 1\n", "agents[0].resource.allocations: unknown key 'gpu'; valid keys: cpu, mem, devices"),
        ('[[agents]]\nid = "../a"\n', "agents[0].id"),
        ('[[agents]]\nname = "a"\n', "agents[0]"),
        (TWO_AGENTS + '[[agents]]\nid = "agent-1"\n', "agents: two are named agent-1"),
        ('[resource]\nallocation-mode = "manual"\n', "resource.allocation-mode: manual divides the node"),
        ('[resource]\nallocation-mode = "auto-split"\n', "resource.allocation-mode: auto-split divides the node"),
        (ALLOCATIONS.replace("manual", "shared") + 'mem = "1g"\n', "agents: a has allocations; they need"),
        (ALLOCATIONS + '"cuda.mem" = 0.5\n', '"cuda.mem" = 0.5 divides slots, which is the old form: name the devices'),
        (ALLOCATIONS + 'devices = { "cuda.mem" = 0.5 }\n', '"cuda.mem" = 0.5 divides slots'),
        (
            ALLOCATIONS + "devices = { cuda.mem = 0.5 }\n",
            '[agents.resource.allocations.devices] cuda = ["cuda0", "cuda1"]',
        ),
        (ALLOCATIONS + "devices = { cuda = 2 }\n", '"cuda" = 2 divides slots'),
        (ALLOCATIONS + "devices = { cuda = {} }\n", '"cuda" = {} divides slots'),
        (ALLOCATIONS + "cpu = 4\n", 'cpu = 4 is a count; name the CPUs, as in cpu = ["0", "1", "2", "3"]'),
        (ALLOCATIONS + 'mem = "lots"\n', "'lots' is not a size"),
        ("agents = 3\n", "agents: Input should be a valid tuple"),
    ],
)
def test_an_invalid_division_file_is_refused_with_the_reason(config: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        division(config, text)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MANUAL.replace("cuda0", "cuda7"), "agent agent-1: there is no cuda device 'cuda7'; there are cuda0, cuda1"),
        (MANUAL.replace("cuda =", "rocm ="), "agent agent-1: there are no devices named 'rocm' here; there are cuda"),
        (MANUAL.replace('"3G"', '"101G"'), "the memory of the agents adds up to 101g, but this node has 100g"),
        ('[devices]\nexclude = ["cuda7"]\n', "devices.exclude: there is no device cuda7; there are cpu0, cpu1, cpu2"),
        (
            MANUAL + '[agents.resource.allocations.devices]\ncuda = ["cuda0"]\n',
            "device cuda0 is given to two agents, agent-1 and agent-2",
        ),
    ],
)
def test_a_division_naming_devices_the_node_does_not_have_is_refused(
    source: NodeSource, config: Path, text: str, words: str
) -> None:
    with pytest.raises(DeviceFileError) as refusal:
        divide(source, division(config, text))
    assert words in str(refusal.value)


def test_a_table_setting_in_an_environment_variable_is_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(config, "")
    monkeypatch.setenv("ALIQUOT_RESOURCE", "manual")
    with pytest.raises(ConfigurationError, match="ALIQUOT_RESOURCE: "):
        read_settings()


def test_the_server_starts_the_named_agents_on_the_accelerator_files(config: Path, accelerators: Path) -> None:
    files = (accelerators / "two_gpus.toml",)
    write(config, '[resource]\nallocation-mode = "auto-split"\n' + TWO_AGENTS)
    agents, words = agents_of(read_settings(accelerators=files))
    assert [agent.agent_id for agent in agents] == ["agent-1", "agent-2"]
    assert len({agent.node.node_id for agent in agents}) == 1
    assert words.endswith("two_gpus.toml, divided among 2 agents")
    with pytest.raises(ConfigurationError, match="agents: --demo makes agents of its own"):
        agents_of(read_settings(demo=True))
