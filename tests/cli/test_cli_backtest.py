"""`aliquot backtest`: what is checked before the run."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.cluster.backtest import _names_of

NOWHERE = {"ALIQUOT_SERVER": "http://127.0.0.1:1", "ALIQUOT_TOKEN": "x", "COLUMNS": "200"}


@pytest.mark.parametrize(
    ("file", "said"), [("missing/figures.csv", "there is no folder missing"), (".", ". is a folder; give a file")]
)
def test_an_unwritable_csv_file_is_refused_before_the_run(
    file: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(main, ["backtest", "--set", "order=sjf", "--csv", file], env=NOWHERE)
    assert (refused.exit_code, refused.stderr) == (2, f"aliquot: --csv: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_policy_files_of_the_same_name_are_named_with_their_folders() -> None:
    files = [Path("old/policy.json"), Path("new/policy.json"), Path("sjf.json")]
    assert _names_of(files) == ["old/policy.json", "new/policy.json", "sjf"]
