"""Command-line output about what the start of a session waits for: the pull of its image, and its files."""

from datetime import timedelta

import pytest

from aliquot.cli.session.follow import WaitReasons
from aliquot.cli.session.show import _facts, kernel_lines, progress_text
from aliquot.client.generated.agents import Kernel
from aliquot.client.generated.enums import KernelState, SessionState
from aliquot.client.generated.session_parts import ImagePull
from aliquot.client.generated.sessions import Session
from cli_tables import NOW, filled, session_id

MIB = 1 << 20


def session(state: SessionState = SessionState.ALLOCATING, **pull: object) -> Session:
    known = {"agent_id": "gpu01", "began_at": NOW, "bytes_done": 0, "bytes_total": 0, "layers": 0, **pull}
    return filled(Session, id=session_id(1), state=state, image="ghcr.io/lab/train:3", pull=filled(ImagePull, **known))


def test_a_running_image_pull_shows_its_progress() -> None:
    begun = session(bytes_done=1536 * MIB, bytes_total=3072 * MIB, layers=7, layers_done=4)
    text = "pulling ghcr.io/lab/train:3 on gpu01, 1.5 GiB of 3 GiB, 4 of 7 layers"
    assert progress_text(begun) == f"allocating: {text}"
    assert dict(_facts(begun))["pull"] == "on gpu01: 1.5 GiB of 3 GiB, 4 of 7 layers"
    assert progress_text(session()).endswith("on gpu01, just begun")


def test_a_pull_that_has_ended_shows_its_duration_and_the_size_of_the_image() -> None:
    ended = session(SessionState.RUNNING, ended_at=NOW + timedelta(seconds=65), size=300 * MIB)
    assert dict(_facts(ended))["pull"] == "on gpu01, took 1m 5s, 300 MiB on the node"
    assert progress_text(ended) == "running"


def test_following_a_session_prints_once_that_its_image_is_pulled(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = WaitReasons()
    for done in (1, 2, 3):
        reasons.show(session(bytes_done=done * MIB))
    reasons.show(filled(Session, id=session_id(1), state=SessionState.RUNNING, started_at=NOW))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        "waits: its image ghcr.io/lab/train:3 is pulled on gpu01",
        "has started",
    ]


def test_a_session_whose_files_are_on_their_way_says_how_far_they_are() -> None:
    said = "receiving files: 120 MiB of 300 MiB"
    rank = filled(Kernel, rank=0, agent_id="gpu02", state=KernelState.STARTING, message=said, resource_spec=())
    starting = filled(Session, state=SessionState.ALLOCATING, kernels=(rank,))
    assert progress_text(starting) == f"allocating: {said}"
    (line,) = kernel_lines(starting, ())
    assert line.startswith("rank 0       starting on gpu02: ")
    assert line.endswith(f"; {said}")
