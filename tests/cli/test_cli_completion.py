"""Shell completion: names where there are any, and no output otherwise."""

import os
import socket
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.client import BlockingClient
from aliquot.client.generated.accounts import CreateUserInput
from aliquot.client.generated.inputs import CancelSessionInput, CommandInput, CreateSessionInput, SlotAmountInput
from rest_server import RestServer

CPU: Final = (SlotAmountInput(slot="cpu", amount="1"),)
CLOSED: Final = "http://127.0.0.1:9"


def _completed(home: Path, *words: str, **variables: str) -> list[str]:
    """Completions for the next word; no other output is allowed."""
    hidden = {name: None for name in os.environ if name.startswith(("ALIQUOT_", "XDG_"))}
    line = {"COMP_WORDS": " ".join(["aliquot", *words, ""]), "COMP_CWORD": str(len(words) + 1)}
    asked = {**hidden, **line, "_ALIQUOT_COMPLETE": "complete_bash", "HOME": str(home), **variables}
    done = CliRunner().invoke(main, [], env=asked, prog_name="aliquot")
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.split()


def _clusters(home: Path, text: str) -> None:
    folder = home / ".config" / "aliquot"
    folder.mkdir(parents=True)
    (folder / "clusters.toml").write_text(text)


def test_completion_offers_sessions_of_the_given_server(demo_server: RestServer, tmp_path: Path) -> None:
    address, token = demo_server.address, demo_server.token
    with demo_server.client() as http:
        made = http.post("/cluster/gpu-allocate", json={"job_id": "completed"}).raise_for_status().json()
        http.post("/cluster/gpu-release", json={"job_id": "completed"}).raise_for_status()
    there = {"ALIQUOT_SERVER": address, "ALIQUOT_TOKEN": token}
    elsewhere = {"ALIQUOT_SERVER": CLOSED, "ALIQUOT_TOKEN": token}
    _clusters(tmp_path, f'[clusters.lab]\nurl = "{address}"\nkey = "{token}"\n')
    assert made["session_id"] in _completed(tmp_path, "session", "show", **there)
    assert made["session_id"] in _completed(tmp_path, "session", "logs", "--server", address, **elsewhere)
    assert made["session_id"] in _completed(tmp_path, "session", "show", "--cluster", "lab")
    assert _completed(tmp_path, "session", "show", **{**there, "ALIQUOT_TOKEN": "wrong"}) == []


def test_completion_offers_only_sessions_that_the_command_applies_to(demo_server: RestServer, tmp_path: Path) -> None:
    there = {"ALIQUOT_SERVER": demo_server.address, "ALIQUOT_TOKEN": demo_server.token}

    def offered(id: str) -> set[str]:
        commands = ("show", "cancel", "hold", "release", "retry", "why", "wait", "shell", "forward", "keep")
        return {command for command in commands if id in _completed(tmp_path, "session", command, **there)}

    with BlockingClient(demo_server.address, demo_server.token) as client:
        held = client.submit_once(CreateSessionInput(command=CommandInput(argv=["true"]), slots=CPU, held=True)).id
        assert offered(held) == {"show", "cancel", "release", "why", "wait"}
        client.cancel_session(CancelSessionInput(id=held))
        assert offered(held) == {"show", "retry"}


def test_a_session_is_completed_by_its_name(demo_server: RestServer, tmp_path: Path) -> None:
    there = {"ALIQUOT_SERVER": demo_server.address, "ALIQUOT_TOKEN": demo_server.token}
    wanted = [
        CreateSessionInput(name=name, command=CommandInput(argv=["true"]), slots=CPU, held=True)
        for name in ("tulip-1", "tulip 2", "rose")
    ]
    line = {"COMP_WORDS": "aliquot why tul", "COMP_CWORD": "2"}
    with BlockingClient(demo_server.address, demo_server.token) as client:
        made = [client.submit_once(one).id for one in wanted]
        assert _completed(tmp_path, **there, **line) == ["tulip-1"]
        for session_id in made:
            client.cancel_session(CancelSessionInput(id=session_id))


def test_a_name_of_another_user_is_not_evaluated_by_zsh(demo_server: RestServer, tmp_path: Path) -> None:
    there = {"ALIQUOT_SERVER": demo_server.address, "ALIQUOT_TOKEN": demo_server.token}
    asked = {"_ALIQUOT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "aliquot session show "}
    wanted = CreateSessionInput(
        name="\\$(touch x) \\`touch y\\` ok", command=CommandInput(argv=["true"]), slots=CPU, held=True
    )
    with BlockingClient(demo_server.address, demo_server.token) as client:
        made = client.submit_once(wanted).id
        text = " ".join(_completed(tmp_path, **there, **asked))
        client.cancel_session(CancelSessionInput(id=made))
    assert f'"{made}":"_touch x_ _touch y_ ok held"' in text


def test_completion_offers_users_agents_and_quota_scopes(demo_server: RestServer, tmp_path: Path) -> None:
    there = {"ALIQUOT_SERVER": demo_server.address, "ALIQUOT_TOKEN": demo_server.token}
    with BlockingClient(demo_server.address, demo_server.token) as client:
        client.create_user(CreateUserInput(name="completed"))
    assert _completed(tmp_path, "agents", "drain", **there) == ["demo-1", "demo-2"]
    assert _completed(tmp_path, "session", "list", "--node", **there) == ["demo-1", "demo-2"]
    assert "completed" in _completed(tmp_path, "session", "list", "--owner", **there)
    assert {"cluster", "user:completed"} <= set(_completed(tmp_path, "quota", "set", **there))
    assert _completed(tmp_path, "user", "add", **there) == []


def test_completion_offers_enumeration_values(tmp_path: Path) -> None:
    assert "running" in _completed(tmp_path, "session", "list", "--state")
    assert "gpus_desc" in _completed(tmp_path, "session", "list", "--order")


@pytest.mark.parametrize("address", [CLOSED, "nonsense", "http://["])
def test_completion_is_empty_without_a_server(address: str, tmp_path: Path) -> None:
    assert _completed(tmp_path, "session", "show", ALIQUOT_SERVER=address, ALIQUOT_TOKEN="x") == []


def test_completion_is_empty_without_a_token(tmp_path: Path) -> None:
    assert _completed(tmp_path, "session", "show", ALIQUOT_DATA_FOLDER=str(tmp_path)) == []


def test_completion_queries_an_unresponsive_server_only_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert _completed(tmp_path, "session", "show", ALIQUOT_SERVER=address, ALIQUOT_TOKEN="x") == []
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_completion_offers_cluster_names_and_ignores_a_broken_file(tmp_path: Path) -> None:
    words = ("queue", "--cluster")
    assert _completed(tmp_path, *words) == []
    _clusters(tmp_path, '[clusters.lab]\nurl = "http://lab"\nkey = "k"\n[clusters.attic]\nurl = "u"\nkey = "k"\n')
    assert _completed(tmp_path, *words) == ["lab", "attic"]
    (tmp_path / ".config" / "aliquot" / "clusters.toml").write_text("[clusters")
    assert _completed(tmp_path, *words) == []
    assert _completed(tmp_path, "session", "show") == []
