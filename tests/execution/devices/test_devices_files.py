"""Device and division files: short forms, spellings, and all errors of a file in one report."""

import subprocess
import sys
from pathlib import Path

import pytest

from aliquot.errors import ConfigurationError
from aliquot.execution.devices.mock import MockPlugin, read_mock_file
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.settings import Settings, read_settings
from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.ids import SlotName

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith(("ALIQUOT_", "RESEARCH_"))]:
        monkeypatch.delenv(name)


def settings(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    file = tmp_path / "aliquot.toml"
    file.write_text(text)
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
    return read_settings()


@pytest.mark.parametrize(
    ("head", "kind", "variable"),
    [
        ("", "cuda", "CUDA_VISIBLE_DEVICES"),
        ('slot_name = "rocm"', "rocm", "ROCR_VISIBLE_DEVICES"),
        ('device_plugin_name = "ROCMDevice"', "cuda", "ROCR_VISIBLE_DEVICES"),
    ],
)
def test_a_mock_file_describes_cuda_devices_unless_it_names_another_kind(
    head: str, kind: str, variable: str, tmp_path: Path
) -> None:
    file = tmp_path / "mock.toml"
    file.write_text(f'{head}\ndevices = [{{ mother_uuid = "u-1", model_name = "x", memory_size = "2G" }}]')
    plugin = MockPlugin({"file": file})
    (device,) = plugin.discover()
    assert (plugin.kind, device.name) == (kind, f"{kind}0")
    environment = plugin.environment({SlotName(f"{kind}.device"): {device.id: 1}})
    assert environment[variable] == "u-1"


def test_all_errors_of_a_mock_file_are_reported_and_no_false_ones(tmp_path: Path) -> None:
    file = tmp_path / "mock.toml"
    file.write_text(
        'slot_name = "cpu"\ncolour = "red"\n'
        'devices = [{ mother_uuid = "u-1", model_name = "", memory_sise = "2G" },'
        ' { mother_uuid = "u-2", model_name = "x", memory_size = "many" }]'
    )
    with pytest.raises(DeviceFileError) as caught:
        read_mock_file(file)
    lines = [line.removeprefix(f"{file}: ") for line in str(caught.value).splitlines()]
    starts = ["unknown key 'colour'", "slot_name: 'cpu'", "devices[0]: unknown key 'memory_sise'",
              "devices[0].model_name: ", "devices[1].memory_size: 'many'"]  # fmt: skip
    assert len(lines) == len(starts), lines
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True)), lines
    assert lines[2].endswith("; did you mean 'memory_size' for 'memory_sise'?")


@pytest.mark.parametrize("word", ["auto-split", "AUTO_SPLIT", "auto_split", "Auto-Split"])
def test_all_spellings_of_auto_split_are_accepted(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'[resource]\nallocation-mode = "{word}"\n[[agents]]\nid = "a1"'
    assert settings(text, tmp_path, monkeypatch).resource.allocation_mode is AllocationMode.AUTO_SPLIT


MANUAL = '[[agents]]\nid = "a1"\n[agents.resource.allocations]\ncpu = ["0"]\n'


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ('[agent.resource]\nallocation-mode = "manual"', ["agent: there is no such setting; did you mean [[agents]]"]),
        (
            '[resource]\nallocation-mode = "auto-split"\n[agent.resource]\nx = 1',
            ["agent: there is no such setting; did you mean [[agents]]"],
        ),
        ('prot = 80', ["prot: there is no such setting; did you mean port?"]),
        (f'[resource]\nallocation-mode = "manuel"\n{MANUAL}', ["resource.allocation-mode: "]),
        (MANUAL, ['agents: a1 has allocations; they need [resource] allocation-mode = "manual"']),
        (f'port = "x"\n[resource]\nallocation-mode = "manuel"\n{MANUAL}', ["port: ", "resource.allocation-mode: "]),
    ],
)  # fmt: skip
def test_all_errors_of_the_settings_are_reported_and_no_false_ones(
    text: str, starts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(text, tmp_path, monkeypatch)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(starts), lines
    assert all(start in line for line, start in zip(lines, starts, strict=True)), lines


@pytest.mark.parametrize(
    ("environment", "start"),
    [
        ({"ALIQUOT_PORT": "x"}, "ALIQUOT_PORT: Input should be a valid integer"),
        ({"RESEARCH_AGENT_MAX_QUEUE_SIZE": "0"}, "RESEARCH_AGENT_MAX_QUEUE_SIZE: Input should be greater"),
        ({"ALIQUOT_EXECUTOR": "rai"}, "ALIQUOT_EXECUTOR: Input should be 'local' or 'ray'"),
        (
            {"RESEARCH_AGENT_RAY_HEAD_NODE": "h:6379", "ALIQUOT_EXECUTOR": "local"},
            "RESEARCH_AGENT_RAY_HEAD_NODE: it is given, but executor is local; give executor ray, or leave",
        ),
    ],
)
def test_errors_of_the_environment_name_the_variable(
    environment: dict[str, str], start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        read_settings()
    assert str(caught.value).startswith(start)


def test_an_error_in_a_flag_does_not_name_the_overridden_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_PORT", "80")
    with pytest.raises(ConfigurationError, match=r"^port: "):
        read_settings(port=-1)


@pytest.mark.parametrize("name", ["RESEARCH_AGENT_RAY_HEAD_NODE", "ALIQUOT_RAY_HEAD"])
def test_the_head_of_a_ray_cluster_selects_ray(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "head:6379")
    assert (read_settings().executor, read_settings().ray_head) == ("ray", "head:6379")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--prot 80", "there is no option --prot; did you mean --port?"),
        ("--port x", "--port: x is not a port"),
        ("--accelerators /no/such/file", "--accelerators: there is no file /no/such/file"),
        ("--port", "--port needs a value"),
        ("--once --agent 2", "there is no option --agent; did you mean --agents?"),
        ("--demo --port=80 --allowed-host x --keep events=3d --behind-proxy", ""),
        ("--once --agents 2 --json", ""),
        ("--help", ""),
    ],
)
def test_the_arguments_of_up_are_checked_without_a_python_environment(arguments: str, words: str) -> None:
    command = [sys.executable, "-I", str(ROOT / "scripts" / "check-arguments"), *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == (2 if words else 0), done.stderr
    assert words in done.stderr


def test_up_refuses_an_unknown_option_before_doing_anything() -> None:
    done = subprocess.run([ROOT / "scripts" / "up", "--prot", "80"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "scripts/up: there is no option --prot; did you mean --port? `scripts/up --help` lists them\n"
    )
