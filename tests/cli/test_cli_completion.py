"""Completion in a shell, as the shell asks for it: names where there are some, and silence where there are none."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rest_server import RestServer, rest_server

PATIENCE_S: Final = 25
"""Less than the 30 s that other commands wait for an answer."""
CLOSED: Final = "http://127.0.0.1:9"


def _completed(home: Path, *words: str, **variables: str) -> list[str]:
    """What is offered for the word that comes next; nothing else may be said."""
    line = " ".join(["aliquot", *words, ""])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ALIQUOT_", "XDG_"))}
    asked = {"_ALIQUOT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) + 1)}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("aliquot"))],
        env={**kept, "HOME": str(home), **asked, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def _clusters(home: Path, text: str) -> None:
    folder = home / ".config" / "aliquot"
    folder.mkdir(parents=True)
    (folder / "clusters.toml").write_text(text)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "server", "--stopped") as running:
        yield running


def test_sessions_of_the_server_that_is_named_are_offered(server: RestServer, tmp_path: Path) -> None:
    with server.client() as http:
        answer = http.post("/queue/submit", json={"command": "true"})
        answer.raise_for_status()
    there = {"ALIQUOT_SERVER": server.address, "ALIQUOT_TOKEN": server.token}
    (found,) = _completed(tmp_path, "session", "show", **there)
    assert found in answer.text
    assert found.startswith("ses_")
    elsewhere = {"ALIQUOT_SERVER": CLOSED, "ALIQUOT_TOKEN": server.token}
    assert _completed(tmp_path, "session", "why", "--server", server.address, **elsewhere) == [found]
    _clusters(tmp_path, f'[clusters.lab]\nurl = "{server.address}"\nkey = "{server.token}"\n')
    assert _completed(tmp_path, "session", "cancel", "--cluster", "lab") == [found]
    assert _completed(tmp_path, "session", "show", **{**there, "ALIQUOT_TOKEN": "wrong"}) == []


@pytest.mark.parametrize("address", [CLOSED, "nonsense", "http://["])
def test_there_is_silence_without_a_server(address: str, tmp_path: Path) -> None:
    assert _completed(tmp_path, "session", "show", ALIQUOT_SERVER=address, ALIQUOT_TOKEN="x") == []


def test_there_is_silence_without_a_token(tmp_path: Path) -> None:
    assert _completed(tmp_path, "session", "show", ALIQUOT_DATA_FOLDER=str(tmp_path)) == []


def test_a_server_that_says_nothing_is_asked_once_and_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert _completed(tmp_path, "session", "show", ALIQUOT_SERVER=address, ALIQUOT_TOKEN="x") == []
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_clusters_are_offered_by_their_names_and_a_broken_file_is_silent(tmp_path: Path) -> None:
    words = ("queue", "--cluster")
    assert _completed(tmp_path, *words) == []
    _clusters(tmp_path, '[clusters.lab]\nurl = "http://lab"\nkey = "k"\n[clusters.attic]\nurl = "u"\nkey = "k"\n')
    assert _completed(tmp_path, *words) == ["lab", "attic"]
    (tmp_path / ".config" / "aliquot" / "clusters.toml").write_text("[clusters")
    assert _completed(tmp_path, *words) == []
    assert _completed(tmp_path, "session", "show") == []
