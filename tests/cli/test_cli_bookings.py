"""Times and names of bookings on the command line, a lease whose command does not stop, and a secret's bytes."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from aliquot.cli import lease, main
from aliquot.cli.cluster.bookings import _present, local_zone, moment_of
from aliquot.cli.secret import _value
from aliquot.cli.session.list import moment_of as listed_moment
from aliquot.cli.session.show import _facts
from aliquot.client.generated.sessions import Session
from cli_tables import filled
from rest_server import RestServer

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_time_of_day_uses_the_local_utc_offset_of_its_date(berlin: None) -> None:
    """The UTC offset of April differs from now, in November."""
    start = moment_of("2027-04-10 09:00", option="--from", now=NOW.astimezone())
    assert start == datetime(2027, 4, 10, 7, 0, tzinfo=UTC)
    assert moment_of("12:00", option="--to", now=NOW.astimezone(), after=start) == datetime(2027, 4, 10, 10, tzinfo=UTC)
    assert moment_of("08:00", option="--to", now=NOW.astimezone(), after=start) == datetime(2027, 4, 11, 6, tzinfo=UTC)
    assert listed_moment("2027-04-10T09:00", option="--queued-since") == start
    assert moment_of("+2h", option="TIME", now=NOW.astimezone(), after=start) == datetime(2027, 4, 10, 9, tzinfo=UTC)


def test_a_time_outside_the_calendar_is_refused(berlin: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        moment_of("0001-01-01", option="--from", now=NOW.astimezone())
    assert "--from 0001-01-01: write it like" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["Europe/Berlin", ":Europe/Berlin", "{zone}", ":{zone}"])
def test_the_time_zone_may_be_given_as_a_zone_file(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = tmp_path / "zoneinfo" / "Europe" / "Berlin"
    zone.parent.mkdir(parents=True)
    zone.touch()
    monkeypatch.setenv("TZ", value.format(zone=zone))
    assert local_zone() == "Europe/Berlin"


def test_a_session_shows_its_booking() -> None:
    assert dict(_facts(filled(Session, booking="bkg_1")))["booking"] == "bkg_1"


def test_a_booking_name_refers_to_the_callers_own_booking_first() -> None:
    def booking(id: str, owner: str) -> Any:
        return SimpleNamespace(id=id, name="night", owner=owner)

    def found(name: str, *known: Any, caller: str = "anna") -> str | None:
        client: Any = SimpleNamespace(reservations=lambda: known, me=lambda: SimpleNamespace(name=caller))
        present = _present(client, name)
        return None if present is None else present.id

    bob, anna = booking("bkg_1", "bob"), booking("bkg_2", "anna")
    assert found("night", bob, anna) == "bkg_2"
    assert found("bkg_1", bob, anna) == "bkg_1"
    assert found("night", bob) == "bkg_1"
    assert found("night", bob, anna, caller="root") is None


def test_a_booking_on_a_drained_agent_is_marked_and_draining_names_it(
    demo_server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIQUOT_SERVER", demo_server.address)
    monkeypatch.setenv("ALIQUOT_TOKEN", demo_server.token)
    monkeypatch.setenv("COLUMNS", "200")
    (agent, host), (_, place) = [
        (one["id"], f"{one['hostname']}/{next(gpu['name'] for gpu in one['devices'] if gpu['kind'] == 'cuda')}")
        for one in json.loads(_run("agents", "list", "--json"))[:2]
    ]
    for name, device in (("night", host), ("day", place)):
        _run("reserve", name, "--from", "+2h", "--for", "1h", "--device", device)
    try:
        drained = _run("agents", "drain", agent)
        assert drained.splitlines()[1].startswith("booked there by "), drained
        assert "night: 1 GPU" in drained
        assert "day" not in drained
        states = {line.split()[0]: line for line in _run("reservations").splitlines() if "GPU" in line}
        assert f"booked; {host.split('/')[0]} drained" in states["night"]
        assert "drained" not in states["day"]
    finally:
        _run("agents", "resume", agent)
        for name in ("night", "day"):
            _run("reservations", "give-back", name)


def test_no_bookings_of_one_user_are_not_said_to_be_none_at_all(
    demo_server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIQUOT_SERVER", demo_server.address)
    monkeypatch.setenv("ALIQUOT_TOKEN", demo_server.token)
    _run("reserve", "evening", "--from", "+2h", "--for", "1h")
    try:
        assert _run("reservations", "--user", "lena").startswith("lena has no open bookings; ")
        assert _run("reservations", "--user", "lena", "--all").startswith("lena has no bookings; ")
    finally:
        _run("reservations", "give-back", "evening")


def _run(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_ctrl_c_kills_a_lease_command_that_ignores_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(300)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    wait, interrupts = process.wait, [KeyboardInterrupt]

    def interrupted(timeout: float | None = None) -> int:
        if interrupts:
            raise interrupts.pop()
        return wait(timeout)

    monkeypatch.setattr(process, "wait", interrupted)
    assert lease._stop(process) == lease.TIMED_OUT
    assert process.poll() == -9
    process.stdout.close()


def test_the_bytes_of_a_secret_file_are_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"a\r\nb\r\n")
    assert _value(file) == "a\r\nb\r\n"
