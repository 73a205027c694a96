"""`aliquot session list`: its options, and the answers of a server."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.connection.output import choice
from aliquot.cli.session.list import moment_of, range_of, states_of
from aliquot.client.generated.enums import SessionOrder, SessionState
from rest_server import RestServer, rest_server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    """A server that places nothing, and the default one."""
    with rest_server(tmp_path, "--stopped") as running:
        monkeypatch.setenv("ALIQUOT_SERVER", running.address)
        monkeypatch.setenv("ALIQUOT_TOKEN", running.token)
        yield running


def _run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["session", "list", *words])
    assert result.exit_code == code, result.output
    return result.output


def _names(*words: str) -> list[str]:
    return [one["name"] for one in json.loads(_run("--json", *words))]


def test_sessions_are_listed_by_order_and_filter(server: RestServer) -> None:
    with server.client() as http:
        for name, priority in (("b", "high"), ("a", "low"), ("c", "critical")):
            http.post("/queue/submit", json={"command": "true", "name": name, "priority": priority}).raise_for_status()
    assert _names() == ["c", "a", "b"]
    assert _names("--order", "priority-desc", "-n", "2") == ["c", "b"]
    assert _names("--order", "name_asc", "--priority", "high", "--priority", "low", "--queued-since", "1h") == [
        "a",
        "b",
    ]
    assert _names("--agent", "nobody", "--all") == _names("--ended-since", "1d") == []
    assert "it is one of newest, oldest" in _run("--order", "up", code=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", datetime(2026, 3, 1).astimezone()),
        ("2026-03-01T12:00+02:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        (None, None),
    ],
)
def test_absolute_times_are_parsed(text: str | None, expected: datetime | None) -> None:
    assert moment_of(text, option="--since") == expected


def test_the_help_names_the_zone_that_times_are_read_in() -> None:
    help_text = _run("--help")
    assert "Time: local, like 2026-03-01T12:00" in help_text
    assert "UTC" not in help_text


def test_a_duration_means_a_time_before_now() -> None:
    day, hour = moment_of("1d", option="--since"), moment_of("1h", option="--since")
    assert day is not None
    assert hour is not None
    assert timedelta(hours=22) < hour - day < timedelta(hours=24)


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "", "-1h", "99999999999d", "0000-01-01"])
def test_invalid_times_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught:
        range_of(None, text, option="--ended")
    assert caught.value.exit_code == 2
    assert "--ended-until" in capsys.readouterr().err


def test_ended_sessions_are_listed_only_on_request() -> None:
    going = states_of(None, all_states=False)
    assert going is not None
    assert SessionState.RUNNING in going
    assert SessionState.FAILED not in going
    assert states_of(None, all_states=True) is None
    assert states_of(["failed"], all_states=False) == [SessionState.FAILED]
    assert choice(SessionOrder, "gpus-desc", of="order") is SessionOrder.GPUS_DESC
