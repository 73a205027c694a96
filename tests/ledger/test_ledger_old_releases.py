"""Event logs and ledgers of earlier releases open, are intact, and every pass replays."""

import lzma
import subprocess
import sys
from pathlib import Path

import pytest

from aliquot.service.ledger.entries import code_version

RECORDED = Path(__file__).parents[1] / "data" / "ledger_9f0fe7e.db.xz"
"""0.1.0: 100 passes, with gangs, arrays, dependencies, preemption, a drained agent and a changed policy."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the recording, upgraded."""
    folder = tmp_path_factory.mktemp("old-ledger")
    (folder / "server").mkdir()
    (folder / "server" / "aliquot.db").write_bytes(lzma.decompress(RECORDED.read_bytes()))
    assert _aliquot(folder, "db", "upgrade")[0] == 0
    return folder


def test_the_records_of_an_earlier_release_are_intact_after_the_upgrade(folder: Path) -> None:
    assert _aliquot(folder, "db", "check") == (0, "intact\n171 holdings match the event log\n")
    code, said = _aliquot(folder, "audit", "verify")
    assert code == 0
    assert said.startswith("intact: 814 events, 100 passes of the ledger, 171 holdings")


def test_every_pass_of_an_earlier_release_is_repeated_and_differences_name_the_versions(folder: Path) -> None:
    code, said = _aliquot(folder, "replay", "--last", "1000")
    assert code in (0, 1), said
    assert "100 passes" in said
    assert "100 of these passes were decided by another version of Aliquot, 0.1.0+" in said
    assert f"and this is {code_version()}" in said


def _aliquot(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "aliquot", *words, "--data-folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout
