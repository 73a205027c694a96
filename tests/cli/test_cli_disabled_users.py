"""`aliquot user disable` says which sessions of the user go on."""

from types import SimpleNamespace

import pytest

from aliquot.cli.accounts import _sessions_left
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.sessions import SessionFilter


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, None), (1, "1 session of vera has not ended, "), (3, "3 sessions of vera have not ended, ")],
)
def test_sessions_of_a_disabled_user_that_go_on_are_counted(count: int, text: str | None) -> None:
    asked: list[SessionFilter] = []

    def sessions(*, first: int, filter: SessionFilter) -> SimpleNamespace:
        asked.append(filter)
        return SimpleNamespace(total_count=count)

    found = _sessions_left(SimpleNamespace(sessions=sessions), "vera")  # type: ignore[arg-type]
    assert found is None if text is None else str(found).startswith(text)
    [wanted] = asked
    assert wanted.owners == ["vera"]
    assert SessionState.QUEUED in (wanted.states or ())
    assert SessionState.FAILED not in (wanted.states or ())
