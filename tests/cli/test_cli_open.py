"""`aliquot open`: a one-time address for a browser."""

import httpx
import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from rest_server import RestServer


def _run(*words: str, **variables: str | None) -> Result:
    return CliRunner().invoke(main, ["open", *words], env={"DISPLAY": None, "WAYLAND_DISPLAY": None, **variables})


def test_the_opened_address_signs_in_a_browser_once(demo_server: RestServer) -> None:
    there = {"ALIQUOT_SERVER": demo_server.address, "ALIQUOT_TOKEN": demo_server.token}
    printed = _run("--no-browser", **there)
    assert printed.exit_code == 0, printed.output
    address = printed.stdout.strip()
    assert address.startswith(f"{demo_server.address}/login?code=")
    with httpx.Client() as browser:
        landed = browser.get(address)
        assert (landed.status_code, landed.headers["location"]) == (303, "/")
        assert "aliquot_session" in landed.headers["set-cookie"]
    with httpx.Client() as another:
        assert another.get(address).headers["location"] == "/login?used"
    assert _run("--no-browser", **there).stdout.strip() != address


def test_a_browser_is_started_where_there_is_one(demo_server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    there = {"ALIQUOT_SERVER": demo_server.address, "ALIQUOT_TOKEN": demo_server.token}
    assert _run(**there, BROWSER=None).exit_code == 0
    assert opened == []
    printed = _run(**there, DISPLAY=":0")
    assert opened == [printed.stdout.strip()]


def test_a_wrong_token_is_refused_with_a_message(demo_server: RestServer) -> None:
    refused = _run("--no-browser", ALIQUOT_SERVER=demo_server.address, ALIQUOT_TOKEN="wrong")
    assert refused.exit_code == 4
    assert "the server does not accept this token or key" in refused.output
