"""`aliquot session cancel` and the like, of many sessions: few requests; what the rate limit refuses is repeated."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer import Exit

from aliquot.cli.session import changes
from aliquot.client.generated.bulk_changes import ChangeSessionsInput, SessionOutcome
from aliquot.client.generated.results import ChangeSessionsSuccess
from aliquot_schema.errors import RateLimited, StateConflict

IDS = [f"ses_{number:08x}-0000-0000-0000-000000000000" for number in range(600)]


class FakeClient:
    """Refuses the sessions given, each once for each of its codes."""

    def __init__(self, refusals: dict[str, list[str]]) -> None:
        self._refusals = refusals
        self.asked: list[ChangeSessionsInput] = []

    def change_sessions(self, asked: ChangeSessionsInput) -> ChangeSessionsSuccess:
        self.asked.append(asked)
        results = tuple(map(self._outcome, asked.ids))
        return ChangeSessionsSuccess(results=results, refused=0, revision=1)

    def _outcome(self, session_id: str) -> SessionOutcome:
        code = next(iter(self._refusals.get(session_id, [])), None)
        if code is None:
            session: Any = Shown(session_id)
            return SessionOutcome(id=session_id, session=session, code=None, message=None)
        self._refusals[session_id].pop(0)
        return SessionOutcome(id=session_id, session=None, code=code, message=f"{session_id}: no")


class Shown:
    """What is printed of a session."""

    state = "canceled"

    def __init__(self, session_id: str) -> None:
        self.id = session_id


def run(monkeypatch: pytest.MonkeyPatch, client: FakeClient) -> None:
    @contextmanager
    def connected(**_place: object) -> Iterator[FakeClient]:
        yield client

    monkeypatch.setattr(changes, "connected", connected)
    changes.cancel([*IDS, IDS[0]])


def test_many_sessions_are_canceled_by_few_requests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = FakeClient({IDS[3]: [StateConflict.code]})
    with pytest.raises(Exit) as ended:
        run(monkeypatch, client)
    assert ended.value.exit_code == changes.REFUSED
    assert [(asked.action, len(asked.ids)) for asked in client.asked] == [
        ("cancel", 250),
        ("cancel", 250),
        ("cancel", 100),
    ]
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [f"{id_}  canceled" for id_ in IDS if id_ != IDS[3]]
    assert shown.err.startswith(f"aliquot: {IDS[3]}: no\n")


def test_sessions_that_the_rate_limit_refused_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = FakeClient({id_: [RateLimited.code] for id_ in IDS[200:250]})
    run(monkeypatch, client)
    assert [*client.asked[1].ids][:50] == IDS[200:250]
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == len(IDS)
    assert shown.err == ""
