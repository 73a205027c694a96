"""Session filters: every input field is passed to the reader."""

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import fields

from aliquot_schema.graphql.scalars import AnyPriority
from aliquot_schema.graphql.workloads.sessions import SessionFilterInput, TimeRangeInput
from aliquot_schema.requests import SessionFilter, TimeRange
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEXTS = ("ids", "owners", "projects", "pools", "tags", "failures", "agents", "nodes", "devices")
GIVEN: dict[str, tuple[Any, Any]] = {
    "run_id": ("r", "r"),
    "name": ("n", "n"),
    "search": ("s", "s"),
    "array_id": ("ses_1", "ses_1"),
    "states": ([SessionState.FAILED], (SessionState.FAILED,)),
    "priorities": ([AnyPriority(Priority.HIGH)], (Priority.HIGH,)),
    "exit_codes": ([0, 7], (0, 7)),
    **{name: ([name], (name,)) for name in TEXTS},
    **{name: (TimeRangeInput(since=NOON), TimeRange(since=NOON)) for name in ("queued_at", "started_at", "ended_at")},
}


def test_every_session_filter_field_reaches_the_reader() -> None:
    assert set(GIVEN) == {field.name for field in fields(SessionFilter)}
    asked = SessionFilterInput(**{name: given for name, (given, _) in GIVEN.items()})
    assert asked.to_filter() == SessionFilter(**{name: expected for name, (_, expected) in GIVEN.items()})
    assert SessionFilterInput().to_filter() == SessionFilter()
