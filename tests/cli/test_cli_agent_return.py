"""`aliquot agent return`, and the labels of a node in its settings."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.client import BlockingClient
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.enums import AgentState
from aliquot.errors import ConfigurationError
from aliquot.execution.agent.device_health import RETURN_FILE
from aliquot.execution.agent.node_notices import NodeNotices
from aliquot.execution.settings import NoticeRules, parse_labels
from aliquot.settings import read_settings
from cli_tables import filled
from rest_server import RestServer

pytestmark = pytest.mark.anyio


def test_a_device_is_returned_to_its_agent_and_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "gpu01"
    folder.mkdir(parents=True)
    asked = [sys.executable, "-m", "aliquot", "agent", "return", "--data-folder", str(tmp_path), "--id"]
    for device in ("GPU-1", "GPU-2"):
        subprocess.run([*asked, "gpu01", device], check=True, timeout=120, capture_output=True)
    assert (folder / RETURN_FILE).read_text().split() == ["GPU-1", "GPU-2"]
    refused = subprocess.run([*asked, "gpu02", "GPU-1"], check=False, timeout=120, capture_output=True, text=True)
    assert (refused.returncode, "there is no agent with the folder" in refused.stderr) == (2, True)


def test_the_return_of_a_device_names_a_wrong_setting_and_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "agents" / "gpu01" / RETURN_FILE
    file.mkdir(parents=True)
    words = ["agent", "return", "GPU-1", "--id", "gpu01", "--data-folder", str(tmp_path)]
    unwritable = CliRunner().invoke(main, words)
    assert (unwritable.exit_code, f"{file} cannot be written: Is a directory" in unwritable.stderr) == (2, True)
    monkeypatch.setenv("ALIQUOT_LOG_LEVEL", "loud")
    wrong = CliRunner().invoke(main, words)
    assert (wrong.exit_code, "aliquot agent: ALIQUOT_LOG_LEVEL: " in wrong.stderr) == (2, True)


def test_node_labels_are_read_from_settings_and_an_invalid_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_NODE_LABELS", "switch=s3,rack=r1")
    assert read_settings().node_notices.labels == {"switch": "s3", "rack": "r1"}
    monkeypatch.setenv("ALIQUOT_NODE_LABELS", "switch=s3,rack")
    with pytest.raises(ConfigurationError, match="line 2 is no NAME=VALUE"):
        read_settings()
    assert parse_labels("# racks\n\n rack = r1 \n") == {"rack": "r1"}


async def test_a_labels_file_is_reread_and_an_invalid_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "labels"
    file.write_text("rack=r1\nspot=true\n")
    notices = NodeNotices(NoticeRules(labels={"rack": "r0", "net": "ib"}, labels_file=file))
    await notices.refresh()
    assert notices.attributes == {"label.net": "ib", "label.rack": "r1", "label.spot": "true"}
    file.write_text("nonsense\n")
    await notices.refresh()
    assert notices.attributes["label.rack"] == "r1"
    file.write_text("")
    await notices.refresh()
    assert notices.attributes == {"label.net": "ib", "label.rack": "r0"}


async def test_an_eviction_command_gives_a_notice_while_it_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "notice"
    notices = NodeNotices(NoticeRules(eviction_command=f"cat {file}"))
    await notices.refresh()
    assert notices.attributes == {}
    file.write_text("taken back\tin 2 min\n")
    await notices.refresh()
    assert notices.attributes == {"eviction": "taken back in 2 min"}
    file.unlink()
    await notices.refresh()
    assert notices.attributes == {}
    notices.note_signal("SIGUSR1")
    assert notices.attributes == {"eviction": "signal SIGUSR1"}


def test_the_shell_releases_a_lost_agent_alone(demo_server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_SERVER", demo_server.address)
    monkeypatch.setenv("ALIQUOT_TOKEN", demo_server.token)
    with demo_server.client() as http:
        answer = http.post("/graphql", json={"query": "{ agents(first: 1) { edges { node { id } } } }"}).json()
    agent = answer["data"]["agents"]["edges"][0]["node"]["id"]
    refused = CliRunner().invoke(main, ["agents", "release-lost", agent])
    assert refused.exit_code == 3
    assert refused.stderr.startswith(f"aliquot: {agent} is alive; only a lost agent can be released")
    released: list[str] = []
    left = SimpleNamespace(agent=filled(Agent, id="gpu02", state=AgentState.LEFT, schedulable=True))
    monkeypatch.setattr(BlockingClient, "release_lost_agent", lambda _, id: (released.append(id), left)[1])
    done = CliRunner().invoke(main, ["agents", "release-lost", "gpu02"])
    assert (done.exit_code, done.stdout.strip(), released) == (0, "gpu02  left", ["gpu02"])
