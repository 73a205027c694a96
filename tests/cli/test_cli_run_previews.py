"""`aliquot run --dry-run`: what a submission would refuse is refused."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer import Exit

from aliquot.cli.run import command
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
        ("{command: x}", Refused, "InvalidRequest: sessions.a: no "),
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
