"""An agent that dials in: settings by flags before the environment before the file, as for a server; signals."""

import asyncio
import importlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.agent import stop_on_signals
from aliquot.execution.agent.config import NodeEndpoint
from aliquot.execution.agent.gpu_memory import MemoryPolicy
from aliquot.execution.remote.agent_setup import AgentOptions

SAID = """\
gpu-memory-policy = "stop"
reserved-cpu = 3
reserved-mem = "1g"
job-user = "nobody"
agent-address = "10.0.0.7"
rendezvous-ports = "29600-29610"
readings-interval-s = 30
insecure-registries = ["registry.lab:5000"]
"""


def options(monkeypatch: pytest.MonkeyPatch, *flags: str) -> AgentOptions:
    seen: list[AgentOptions] = []

    async def serve(made: AgentOptions, **_: Any) -> None:
        seen.append(made)

    monkeypatch.setattr(importlib.import_module("aliquot.cli.agent"), "_serve", serve)
    monkeypatch.setattr("aliquot.app.logging.set_up_logs", lambda **_: None)
    words = ["agent", "--server", "https://127.0.0.1:1", "--key-file", "key", *flags]
    outcome = CliRunner().invoke(main, words, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    (made,) = seen
    return made


def test_agent_settings_are_read_from_the_file_unless_a_flag_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "aliquot.toml"
    file.write_text(f'{SAID}data-folder = "{tmp_path}"\n')
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
    made = options(monkeypatch, "--reserved-cpu", "0")
    assert (made.memory_policy, made.job_user, made.data_folder) == (MemoryPolicy.STOP, "nobody", tmp_path)
    assert (made.reserved_cpu, made.reserved_mem) == (0, "1g")
    assert made.readings_interval_s == 30
    assert made.confinement.insecure_registries == ("registry.lab:5000",)
    assert made.reach == NodeEndpoint.of(address="10.0.0.7", ports="29600-29610")


def test_agent_settings_have_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    made = options(monkeypatch)
    assert (made.memory_policy, made.reserved_cpu, made.reserved_mem) == (MemoryPolicy.FLAG, 0, "512m")
    assert (made.job_user, made.allow_root_jobs) == (None, False)


def test_agent_check_uses_the_settings_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "aliquot.toml"
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
    for said, words in (("reserved-cpu = 100000", "leaves none"), ('rendezvous-ports = "9-8"', "rendezvous-ports")):
        file.write_text(f'{said}\ndata-folder = "{tmp_path}"\n')
        outcome = CliRunner().invoke(main, ["agent", "check", "--json"], catch_exceptions=False)
        assert outcome.exit_code == 1
        assert words in outcome.output


def test_health_asks_the_default_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ALIQUOT_SERVER", "ALIQUOT_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "aliquot").mkdir()
    (tmp_path / "aliquot/clusters.toml").write_text(
        'default = "lab"\n[clusters.lab]\nurl = "http://127.0.0.1:9"\nkey-file = "/not/there"\n'
        '[clusters.other]\nurl = "http://127.0.0.2:9"\nkey = "x"\n'
    )
    for words, address in (([], "127.0.0.1:9"), (["--cluster", "other"], "127.0.0.2:9")):
        found = CliRunner().invoke(main, ["health", *words])
        assert (found.exit_code, address in found.stderr) == (4, True), found.stderr
    assert "no cluster none" in CliRunner().invoke(main, ["health", "--cluster", "none"]).stderr


def test_health_uses_the_data_folder_of_the_settings_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "aliquot.toml"
    file.write_text(f'data-folder = "{tmp_path / "elsewhere"}"\n')
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
    asked: list[Path] = []
    monkeypatch.setattr(
        "aliquot.execution.remote.connection_file.connections", lambda folder: asked.append(folder) or {}
    )
    assert CliRunner().invoke(main, ["health", "--agent"]).exit_code == 1
    assert asked == [tmp_path / "elsewhere"]


@pytest.mark.parametrize("under_nohup", [False, True])
def test_closing_its_terminal_stops_an_agent_unless_it_runs_under_nohup(under_nohup: bool) -> None:
    async def stopped_by_hangup() -> bool:
        stop = stop_on_signals()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.1)
        return stop.is_set()

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if under_nohup else signal.SIG_DFL)
    try:
        assert asyncio.run(stopped_by_hangup()) is not under_nohup
    finally:
        signal.signal(signal.SIGHUP, before)
