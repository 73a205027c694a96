"""`aliquot run`: a refusal names the place in the file, and `--dry-run` refuses what a submission would."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer import Exit

from aliquot.cli.run import command
from aliquot.cli.run.fields import read_text
from aliquot.client import Refused
from aliquot_schema.errors import NotFound

UNKNOWN = "ses_01a22b10-852c-76fc-b89a-9cc9cc739600"


def refuse(request: Any) -> Any:
    raise Refused({"__typename": "InvalidRequest", "code": "invalid_request", "message": f"no {request.local_name}"})


def absent(id: str) -> Any:
    raise NotFound(f"there is no session {id}", kind="session", id=id)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (f"{{command: x, after: {UNKNOWN}}}", NotFound, f"there is no session {UNKNOWN}"),
        ("{command: x}", Refused, "InvalidRequest: jobs.yaml:2: sessions.a: no "),
        ("{command: x, sync: ./nowhere}", Exit, "sessions.a: sync: "),
    ],
)
def test_a_dry_run_refuses_what_a_submission_refuses_and_names_the_session(
    text: str,
    error: type[Exception],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = SimpleNamespace(preview_session=refuse, get_session=absent)
    monkeypatch.setattr(command, "connected", lambda **_: nullcontext(client))
    file = tmp_path / "jobs.yaml"
    file.write_text(f"sessions:\n  a: {text}\n  b: {{command: y}}\n", encoding="utf-8")
    with pytest.raises(error) as raised:
        command.run(file, dry_run=True)
    assert says in str(raised.value) + capsys.readouterr().err


@pytest.mark.parametrize(
    ("message", "field", "says"),
    [
        ("sessions[1] (b): project: there is no project x", "project", "jobs.yaml:6: sessions.b.project: there is no"),
        ("sessions[1] (b): slots: cuda.device: too many", None, "jobs.yaml:5: sessions.b.resources: cuda.device: too"),
        ("sessions[0] (a): queue: it is full", "queue", "jobs.yaml:2: sessions.a: it is full"),
        ("sessions: the batch is empty", "sessions", "InvalidRequest: sessions: the batch is empty"),
    ],
)
def test_a_refusal_names_the_line_of_the_file(
    message: str, field: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_all(_request: Any) -> Any:
        raise Refused({"__typename": "InvalidRequest", "code": "invalid_request", "message": message, "field": field})

    monkeypatch.setattr(command, "connected", lambda **_: nullcontext(SimpleNamespace(create_sessions=refuse_all)))
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "sessions:\n  a: {command: x}\n  b:\n    command: y\n    resources: {gpu: 1}\n    project: x\n",
        encoding="utf-8",
    )
    with pytest.raises(Refused) as refused:
        command.run(file)
    assert says in str(refused.value)


def test_a_session_turns_off_what_the_defaults_turn_on(tmp_path: Path) -> None:
    text = "defaults: {sandbox: true}\nsessions:\n  a: {command: x}\n  b: {command: y, sandbox: false}\n"
    found = read_text(text, file="jobs.yaml", folder=tmp_path)
    assert [one.fields.get("sandbox") for one in found] == ["standard", None]
