"""Files of a server and an agent that sandboxed jobs cannot see, wherever the settings put them."""

from pathlib import Path

import pytest

from aliquot.app.agents import hidden_of
from aliquot.execution.remote.agent_setup import AgentOptions, agent_core
from aliquot.settings import read_settings

SETTINGS = """
data-folder = "/srv/aliquot"
secrets-key-file = "/etc/aliquot/secrets.key"
metrics-token-file = "/etc/aliquot/metrics.token"
database = "sqlite:////home/anna/aliquot.db"

[[receivers]]
name = "chat"
kind = "slack"
url-file = "/etc/aliquot/chat.url"
"""


def test_the_sandbox_hides_every_file_named_in_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "aliquot.toml"
    file.write_text(SETTINGS)
    monkeypatch.setenv("ALIQUOT_CONFIG", str(file))
    names = ["/srv/aliquot", "/srv/aliquot/token", "/home/anna/aliquot.db", "/home/anna/aliquot.db-wal", str(file)]
    names += [f"/etc/aliquot/{name}" for name in ("secrets.key", "metrics.token", "chat.url")]
    assert sorted(map(str, hidden_of(read_settings()))) == sorted(names)


def test_the_sandbox_of_a_remote_agent_hides_its_data_folder_and_key(tmp_path: Path) -> None:
    key = tmp_path / "agent.key"
    rules = read_settings().confinement_rules(key)
    core = agent_core(AgentOptions(data_folder=tmp_path / "data", confinement=rules, demo_node=1), now_us=lambda: 1)
    assert core.config.confinement.hidden == (tmp_path / "data", key)
