"""`aliquot session environment` while the agent that has the record does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer import Exit

from aliquot.cli.connection.server import failures_shown
from aliquot.cli.session import files
from aliquot.client import BlockingClient
from aliquot.client.errors import ClusterUnavailable, Refused
from aliquot.client.generated.sessions import Session
from cli_tables import filled, session_id

SILENT = "agent gpu01 does not answer: it was last heard at 2026-11-30 12:17:05 UTC"


class Silent(BlockingClient):
    """A server whose agent does not answer."""

    def __init__(self) -> None:
        pass

    def get_session(self, id: str) -> Session:
        return filled(Session, id=id, workspace=None, activates=None)

    def download(self, *_: Any, **_options: Any) -> int:
        raise ClusterUnavailable(SILENT)


@pytest.fixture(autouse=True)
def _without_server(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connected(**_: Any) -> Iterator[Silent]:
        with failures_shown():
            yield Silent()

    monkeypatch.setattr(files, "connected", connected)
    monkeypatch.setattr(files, "find_session", lambda _client, id: id)


def test_an_environment_that_cannot_be_read_is_not_shown_as_missing(capsys: pytest.CaptureFixture[str]) -> None:
    files.environment(session_id(1))
    assert f"python       cannot be read now: {SILENT}\n" in capsys.readouterr().out


@pytest.mark.parametrize("wanted", [{"packages": True}, {"as_json": True}])
def test_packages_that_cannot_be_read_are_an_error(wanted: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit) as end:
        files.environment(session_id(1), **wanted)
    assert end.value.exit_code == 4
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"aliquot: {SILENT}\n")


@pytest.mark.parametrize("wanted", [{}, {"packages": True}, {"as_json": True}, {"diff": True}])
def test_an_environment_that_the_caller_may_not_read_is_refused(
    wanted: dict[str, bool], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **_options: Any) -> int:
        raise Refused({"__typename": "Forbidden", "message": "only its owner and admins may read its output"})

    monkeypatch.setattr(Silent, "download", refuse)
    with pytest.raises(Exit) as end:
        files.environment(session_id(1), **wanted)
    shown = capsys.readouterr()
    said = "aliquot: only its owner and admins may read its output\n"
    assert (end.value.exit_code, shown.out, shown.err) == (3, "", said)
