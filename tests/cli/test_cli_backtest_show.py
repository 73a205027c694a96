"""`aliquot backtest` and `aliquot tune` with `--show` and `--list`: earlier results."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.cluster import backtest, tune
from aliquot.cli.cluster.backtest import print_report
from aliquot.cli.cluster.tune import print_tuning
from aliquot.client.generated.backtests import Backtest, BacktestReport, BacktestRow, BacktestSpread, Tuning
from aliquot.client.generated.enums import BacktestState
from cli_tables import filled

RUNNER = CliRunner(env={"COLUMNS": "200"})
ROW = filled(BacktestRow, label="sjf", sessions=40, wait=filled(BacktestSpread), completion=filled(BacktestSpread))
REPORT = filled(BacktestReport, sessions=40, rows=(ROW,))
TUNING = filled(Tuning, unseen=(ROW,), verdict="Better.", is_better=True)
AT = datetime(2026, 5, 4, 3, 2, tzinfo=UTC)


def view(id: str, state: BacktestState = BacktestState.COMPLETED, **known: Any) -> Backtest:
    fields: dict[str, Any] = {"report": None, "tuning": None, "failure": None, "applied_version": None}
    return filled(Backtest, id=id, state=state, created_at=AT, **(fields | known))


DONE = view("bkt_1", report=REPORT)
TUNED = view("bkt_2", tuning=TUNING)
STOPPED = view("bkt_3", BacktestState.FAILED, failure="the server was restarted; start it again", labels=("sjf",))


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that keeps three backtests."""
    known = {one.id: one for one in (STOPPED, TUNED, DONE)}
    client = SimpleNamespace(backtest=known.get, backtests=lambda: tuple(known.values()))

    @contextmanager
    def connected(**_: object) -> Iterator[Any]:
        yield client

    for module in (backtest, tune):
        monkeypatch.setattr(module, "connected", connected)


def test_an_earlier_backtest_is_printed_as_after_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = RUNNER.invoke(main, ["backtest", "--show", "bkt_1"])
    print_report("bkt_1", REPORT)
    assert shown.exit_code == 0
    assert shown.stdout.split() == capsys.readouterr().out.split()
    assert "to show it again: aliquot backtest --show bkt_1\n" in shown.stdout
    as_json = RUNNER.invoke(main, ["backtest", "--show", "bkt_1", "--json"])
    assert json.loads(as_json.stdout)["sessions"] == 40


def test_an_earlier_tuning_is_printed_as_after_its_search(capsys: pytest.CaptureFixture[str]) -> None:
    shown = RUNNER.invoke(main, ["tune", "--show", "bkt_2"])
    print_tuning(TUNED, TUNING)
    assert shown.exit_code == 0
    assert shown.stdout.split() == capsys.readouterr().out.split()
    assert "to show it again: aliquot tune --show bkt_2\n" in shown.stdout
    as_json = RUNNER.invoke(main, ["tune", "--show", "bkt_2", "--json"])
    assert json.loads(as_json.stdout)["tuning"]["verdict"] == "Better."


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["backtest", "--show", "bkt_3"], 1, "aliquot: the server was restarted; start it again\n"),
        (["backtest", "--show", "bkt_9"], 1, "there is no backtest bkt_9; the newest 50 are kept"),
        (["backtest", "--show", "bkt_2"], 1, "bkt_2 is a tuning; `aliquot tune --show bkt_2` shows it"),
        (["backtest", "--show", "bkt_1", "--set", "order=sjf"], 2, "--show: give no options of another run with it"),
        (["backtest", "--list", "--since", "9d"], 2, "--list: give no options of another run with it"),
        (["tune", "--show", "bkt_9"], 1, "there is no tuning bkt_9; the newest 50 are kept"),
        (["tune", "--show", "bkt_1"], 1, "bkt_1 is a backtest; `aliquot backtest --show bkt_1` shows it"),
        (["backtest", "--list", "--csv", "list.csv"], 2, "--csv: the list has no figures; give it with --show ID"),
        (["tune", "--show", "bkt_2", "--auto"], 2, "--show: give no options of another search with it"),
        (["tune", "--show", "bkt_2", "--since", "9d"], 2, "--show: give no options of another search with it"),
        (["tune", "--show", "bkt_2", "--tries", "9"], 2, "--show: give no options of another search with it"),
        (["tune", "--show", "bkt_2", "--seed", "9"], 2, "--show: give no options of another search with it"),
        (["tune", "--apply", "bkt_2", "--auto"], 2, "--apply: give no options of another search with it"),
    ],
)
def test_a_result_that_cannot_be_shown_is_refused_with_the_reason(words: list[str], code: int, said: str) -> None:
    refused = RUNNER.invoke(main, words)
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert said in refused.stderr


def test_kept_backtests_are_listed_with_the_reasons_of_failures() -> None:
    listed = RUNNER.invoke(main, ["backtest", "--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines() if "bkt_" in line] == ["bkt_3", "bkt_2", "bkt_1"]
    assert "sjf: the server was restarted; start it again" in listed.stdout
    as_json = RUNNER.invoke(main, ["backtest", "--list", "--json"])
    assert [one["id"] for one in json.loads(as_json.stdout)] == ["bkt_3", "bkt_2", "bkt_1"]
