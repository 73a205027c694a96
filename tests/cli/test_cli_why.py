"""`aliquot why`: changes that were tried, and forecast changes."""

from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import convert

from aliquot.cli.session.why import SHOWN_MAX, explanation_lines, in_width, other_text, why
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.explanations import OtherSession, SessionExplanation
from aliquot.client.generated.pages import SessionConnection
from aliquot.client.generated.sessions import ArrayTasks, Session, TaskSet
from cli_tables import filled

ID = "ses_01a20a9b-e532-7654-88be-a9c31dbad414"
REMEDY: dict[str, Any] = {
    "kind": "fewer_gpus",
    "summary": "with 2 GPUs instead of 4 GPUs",
    "starts_now": False,
    "starts_at": "2026-11-23T15:00:00Z",
    "applies": True,
    "command": "aliquot session change ses_1 -r gpu=2",
    "change": None,
    "sessions": [],
    "delays": [],
    "p50_earlier": None,
}


HELD: dict[str, Any] = {
    "reason": "held",
    "message": "Held until it is released.",
    "may_borrow": False,
    **dict.fromkeys(("slot", "requested", "available", "quota", "limit", "held", "fits_kernels", "until")),
    **dict.fromkeys(("blocked_by", "agents", "devices"), ()),
}


def lines(*remedies: dict[str, Any], is_forecasting: bool = False, waits: dict[str, Any] | None = None) -> list[str]:
    found = convert(
        {
            "session_id": "ses_1",
            "revision": 7,
            "at": "2026-11-23T12:00:00Z",
            "waits": waits,
            "position": 1,
            "ahead": [],
            "in_the_way": [],
            "expected_start": None,
            "remedies": remedies,
            "is_forecasting": is_forecasting,
        },
        SessionExplanation,
    )
    return list(explanation_lines(found))[1:]


def test_a_forecast_change_shows_the_gain_and_the_command() -> None:
    assert lines({**REMEDY, "p50_earlier": 3 * 3600.0}) == [
        "no single change that you can make would let it start now",
        "is forecast to start earlier with one of these changes (P50):",
        "  about 3h earlier, with 2 GPUs instead of 4 GPUs",
        "    aliquot session change ses_1 -r gpu=2",
    ]


def test_a_held_session_shows_the_release_command_although_it_would_still_wait() -> None:
    assert lines(waits=HELD) == ["`aliquot session release ses_1` lets it take its turn; it would still wait then"]


def test_sessions_in_a_suggested_change_are_shown_by_name() -> None:
    ids = {f"{ID}_3": "sweep", ID.replace("ad414", "ad415"): None, ID.replace("ad414", "ad416"): "train"}
    known = {"owner": "ada", "state": "running", "gpus": 1.0, "until": None, "is_overdue": False, "preemptible": False}
    sessions = [{"session_id": id, "name": name, **known} for id, name in ids.items()]
    summary = f"unchanged, when {', '.join(ids)} have ended"
    assert lines({**REMEDY, "summary": summary, "sessions": sessions})[1].endswith(
        "unchanged, when sweep_3, 1dbad415, train have ended"
    )


@pytest.mark.parametrize("is_forecasting", [False, True])
def test_why_says_whether_changes_are_still_being_forecast(is_forecasting: bool) -> None:
    found = lines({**REMEDY, "starts_now": True}, is_forecasting=is_forecasting)
    assert found[0] == "would start with one of these changes (each was tried in the scheduler):"
    assert found[3:] == ["other changes are being forecast; ask again in a few seconds"][:is_forecasting]


def test_the_first_sessions_in_the_way_are_listed_with_short_ids() -> None:
    known = {"owner": "ada", "state": "running", "gpus": 1.0, "until": None, "is_overdue": False, "preemptible": False}
    others = [{"session_id": ID, "name": f"job-{place}", **known} for place in range(SHOWN_MAX + 2)]
    found = convert(
        {
            "session_id": "ses_1",
            "revision": 7,
            "at": "2026-11-23T12:00:00Z",
            "waits": None,
            "position": None,
            "ahead": [],
            "in_the_way": others,
            "expected_start": None,
            "remedies": [],
            "is_forecasting": False,
        },
        SessionExplanation,
    )
    head, first, *_, more, _ = explanation_lines(found)
    assert (head, first, more) == ("in the way:", "  job-0 (1dbad414) of ada, 1 GPU, running", "  and 2 more")


def test_a_session_past_its_expected_run_time_is_not_called_overdue() -> None:
    late = {"owner": "ada", "state": "running", "gpus": 1.0, "until": None, "is_overdue": True, "preemptible": False}
    other = convert({"session_id": ID, "name": "train", **late}, OtherSession)
    said = other_text(other, now=datetime(2026, 11, 23, 12, tzinfo=UTC))
    assert said == "train (1dbad414) of ada, 1 GPU, running, longer than expected"


def test_long_lines_break_between_words_and_commands_stay_whole() -> None:
    command = "    aliquot session change 1dbad414 -r gpu=2 --time-limit 2h --priority normal --pool default"
    assert in_width(command, 40) == [command]
    assert in_width("  one-word and another-word", 24) == ["  one-word and", "      another-word"]


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (2, f"2 tasks that were preempted or retried wait; `aliquot session list --array {ID} --state queued"),
        (0, "not waiting: running, 2 tasks started and not ended"),
    ],
)
def test_preempted_tasks_of_a_running_array_are_named(
    waiting: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = filled(ArrayTasks, active=filled(TaskSet, count=2))
    array = filled(Session, id=ID, state=SessionState.RUNNING, tasks=tasks)
    page = filled(SessionConnection, total_count=waiting)
    client = SimpleNamespace(session_why=lambda _: None, sessions=lambda **_: page)
    monkeypatch.setattr("aliquot.cli.session.why.connected", lambda **_: nullcontext(client))
    monkeypatch.setattr("aliquot.cli.session.why.look_up", lambda *_: array)
    why(ID)
    assert capsys.readouterr().out.startswith(words)
