"""Log lines: plain and JSON, with context fields, one line each, without commands."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from aliquot.app.logging import set_up_logs
from aliquot.service.leadership.effects import SessionNews
from aliquot.service.metrics.log_context import log_fields, logging_with
from aliquot.service.state.state import State
from aliquot_schema.deprecation import Deprecation
from aliquot_schema.resources.devices import DeviceId
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Failure, SessionSpec
from aliquot_schema.states import KernelState, SessionState
from core_records import SLOT, agent, kernel, lease_of, session
from service_events import event_of

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _plain_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records as the server makes them. Ray marks all records of a process; the server runs it in another one."""
    monkeypatch.setattr(logging, "_logRecordFactory", logging.LogRecord)


class Lines:
    """Logged lines."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def begin(self, form: Literal["console", "json"]) -> None:
        """Log in this form to this."""
        set_up_logs(level="info", form=form, quiet=("chatty",))
        (handler,) = logging.getLogger().handlers
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(self.stream)

    @property
    def plain(self) -> list[str]:
        """All lines."""
        return self.stream.getvalue().splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        """All lines, as JSON."""
        return [json.loads(line) for line in self.plain]


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield Lines()
    root.handlers[:] = before
    root.setLevel(level)
    logging.getLogger("chatty").setLevel(logging.NOTSET)


def test_a_deprecated_name_is_logged_once(lines: Lines) -> None:
    lines.begin("json")
    for _ in range(2):
        Deprecation(old="colour", new="color", removed_in="0.3").warn()
    (line,) = lines.objects
    assert (line["level"], line["logger"]) == ("WARNING", "aliquot.deprecation")
    assert line["message"] == "colour is deprecated; use color. Release 0.3 may remove colour."


def test_a_json_log_line_has_its_fields_next_to_its_message(lines: Lines) -> None:
    lines.begin("json")
    with logging_with(request_id="req_1"), logging_with(pass_number=7):
        logging.getLogger("aliquot.x").warning("%s happened", "it", extra={"devices": ["a", "b"]})
    (line,) = lines.objects
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING",
        "logger": "aliquot.x",
        "message": "it happened",
        "devices": ["a", "b"],
        "request_id": "req_1",
        "pass_number": 7,
    }


def test_an_error_is_one_line_of_json(lines: Lines) -> None:
    lines.begin("json")
    try:
        raise ValueError("wrong")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("failed\nbadly")
    (line,) = lines.objects
    assert line["message"] == "failed\nbadly"
    assert "ValueError: wrong" in line["exc_info"]


def test_a_console_log_line_ends_with_the_fields_missing_from_its_message(lines: Lines) -> None:
    lines.begin("console")
    with logging_with(request_id="req_1"):
        logging.getLogger("aliquot.x").info("req_1 GET / 200", extra={"devices": ["a", "b"], "event": "said"})
    (line,) = lines.plain
    assert line.endswith("INFO aliquot.x: req_1 GET / 200  devices=a,b")


def test_messages_and_fields_cannot_forge_log_lines(lines: Lines) -> None:
    lines.begin("console")
    logging.getLogger("aliquot.x").info("GET /a\n2026-01-01 INFO aliquot.x: forged\r", extra={"user": "x\ny\x1b[31m"})
    assert len(lines.plain) == 1
    assert lines.plain[0].endswith("/a\\x0a2026-01-01 INFO aliquot.x: forged\\x0d  user=x\\x0ay\\x1b[31m")


def test_a_user_name_can_neither_hide_nor_forge_a_log_field(lines: Lines) -> None:
    lines.begin("console")
    told = logging.getLogger("aliquot.x")
    told.info("session allocated devices", extra={"user": "al", "attempt": 1})
    told.info("ses_1: allocated", extra={"session_id": "ses_1", "user": "ann session_id=ses_2"})
    told.info("\u202esaid backwards")
    assert [line.partition("aliquot.x: ")[2] for line in lines.plain] == [
        "session allocated devices  user=al attempt=1",
        'ses_1: allocated  user="ann session_id=ses_2"',
        "\\x202esaid backwards",
    ]


def test_the_text_of_an_exception_cannot_forge_log_lines(lines: Lines) -> None:
    lines.begin("console")
    try:
        raise ValueError("wrong:\n2026-01-01 INFO aliquot.x: forged\r2026-01-01 INFO aliquot.x: forged")
    except ValueError:
        logging.getLogger("aliquot.x").exception("failed")
    assert [line for line in lines.plain if not line.startswith("  ")] == lines.plain[:1]
    assert lines.plain[-1] == "  2026-01-01 INFO aliquot.x: forged\\x0d2026-01-01 INFO aliquot.x: forged"


def test_loggers_of_libraries_log_only_warnings_and_errors(lines: Lines) -> None:
    lines.begin("console")
    logging.getLogger("chatty").info("something")
    logging.getLogger("chatty").warning("something")
    assert len(lines.plain) == 1


async def test_tasks_started_inside_a_log_context_keep_its_fields() -> None:
    async def look() -> dict[str, object]:
        return dict(log_fields())

    with logging_with(request_id="req_1"):
        inside = asyncio.create_task(look())
    assert await inside == {"request_id": "req_1"}
    assert await look() == {}


SECRET = SessionSpec(argv=("env", "TOKEN=hunter2"), environment={"PASSWORD": "hunter2"}, slots=ResourceSlot({SLOT: 1}))


def test_an_allocation_is_logged_once_with_its_devices_after_the_state_is_updated(lines: Lines) -> None:
    lines.begin("json")
    state = State()
    given = session(SessionState.SCHEDULED, queued_us=1_000_000, scheduled_us=3_500_000, spec=SECRET)
    rank = kernel(KernelState.GRANTED)
    news = SessionNews(state)
    news.take(event_of(given, "session.scheduled"))
    assert lines.plain == []
    lease = lease_of(rank, spec={"cuda.shares": {DeviceId("cuda0"): 500}})
    state.load((agent(), given, rank, lease), revision=1, ended_complete=True)
    news.settle()
    news.settle()
    (line,) = lines.objects
    assert line["message"] == "session allocated devices"
    assert (line["event"], line["session_id"], line["attempt"]) == ("session_allocated_devices", given.id, 1)
    assert (line["devices"], line["shares"], line["agents"], line["wait_s"]) == (["cuda0"], [0.5], ["a"], 2.5)
    assert "hunter2" not in lines.plain[0]


def test_failed_allocations_are_logged_with_their_reason(lines: Lines) -> None:
    lines.begin("json")
    news = SessionNews(State())
    failure = Failure(code="dependency", message="hunter2")
    never = session(SessionState.FAILED, failure=failure, spec=SECRET)
    news.take(event_of(never, "session.failed"))
    refused = lease_of(kernel(KernelState.EXITED), evidence=EndEvidence.REFUSED)
    news.take(event_of(refused, "lease.released"))
    ran = session(SessionState.FAILED, started_us=5)
    news.take(event_of(ran, "session.failed"))
    told = [(line["event"], line["session_id"], line["reason"]) for line in lines.objects]
    assert told == [
        ("allocation_failed", never.id, "dependency"),
        ("allocation_failed", refused.session_id, "launch_refused"),
    ]
    assert "hunter2" not in "".join(lines.plain)
