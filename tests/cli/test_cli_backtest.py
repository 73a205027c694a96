"""`aliquot backtest`: what is checked before the run."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer import Exit
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.cluster import backtest
from aliquot.cli.cluster.backtest import _names_of, ended, finished
from aliquot.client import GraphQLFault, ServerUnreachable

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


def test_a_change_given_as_a_policy_file_names_the_right_option() -> None:
    refused = CliRunner().invoke(main, ["backtest", "--policy", "order=sjf"], env=NOWHERE)
    hint = "order=sjf: No such file or directory; NAME=VALUE is for `policy set`, or for `backtest --set`"
    assert (refused.exit_code, refused.stderr) == (2, f"aliquot: {hint}\n")


def test_policy_files_of_the_same_name_are_named_with_their_folders() -> None:
    files = [Path("old/policy.json"), Path("new/policy.json"), Path("sjf.json")]
    assert _names_of(files) == ["old/policy.json", "new/policy.json", "sjf"]


def answering(*answers: object) -> Any:
    """A client whose queries for a backtest have these outcomes."""
    left: Iterator[object] = iter(answers)

    def ask(_: str) -> object:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return SimpleNamespace(backtest=ask)


@pytest.mark.parametrize(
    "away",
    [ServerUnreachable("refused"), GraphQLFault([{"message": "no database", "extensions": {"code": "unavailable"}}])],
)
def test_a_server_that_is_away_for_a_moment_does_not_end_the_wait(
    away: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtest, "POLL_S", 0.0)
    running: Any = SimpleNamespace(id="bkt_1", state="running", progress=0.5)
    done = SimpleNamespace(id="bkt_1", state="completed", progress=1.0, report="figures", tuning=None)
    found = ended(answering(running, away, done), running, name="backtest")
    assert found.report == "figures"


def test_a_backtest_that_was_lost_with_a_restart_is_named_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backtest, "POLL_S", 0.0)
    running: Any = SimpleNamespace(id="bkt_1", state="running", progress=0.5)
    with pytest.raises(Exit):
        ended(answering(ServerUnreachable("refused"), None), running, name="tuning")
    assert "the server no longer keeps the tuning; run the command again" in capsys.readouterr().err


def test_a_command_that_cannot_reach_the_server_any_more_says_how_to_see_the_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backtest, "POLL_S", 0.0)
    monkeypatch.setattr(backtest, "PATIENCE_S", -1.0)
    running: Any = SimpleNamespace(id="bkt_1", state="running", progress=0.5)
    with pytest.raises(ServerUnreachable):
        finished(answering(ServerUnreachable("refused")), running, name="tuning")
    said = "the server keeps the tuning and goes on with it: `aliquot tune --show bkt_1`\n"
    assert capsys.readouterr().err.endswith(said)
