"""Bulk changes: each session has its own outcome, whatever happens to the others."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from aliquot.service.sessions.bulk_changes import TOGETHER, change_each
from aliquot_schema.errors import AliquotError, RateLimited, Unavailable
from aliquot_schema.requests import Caller, SessionAction, SessionChanged, SessionOutcomes, SessionsAction
from aliquot_schema.views.sessions import SessionView
from service_stage import CALLER

pytestmark = pytest.mark.anyio

VIEW = cast(SessionView, "the session after the change")
LIMITED = RateLimited("ann may submit 3 sessions per minute", retry_after=20.0)


async def changed(ids: list[str], fault: Callable[[str], Exception | None]) -> tuple[SessionOutcomes, list[str]]:
    """The outcomes, and which sessions were tried."""
    tried: list[str] = []

    async def change(_: Caller, session_id: str, /, **__: Any) -> SessionChanged:
        tried.append(session_id)
        error = fault(session_id)
        if error is not None:
            raise error
        return SessionChanged(session=VIEW, revision=len(tried))

    asked = SessionsAction(ids=tuple(ids), action=SessionAction.RETRY)
    return await change_each(change, CALLER, asked, revision=0), tried


def codes(found: SessionOutcomes) -> list[str | None]:
    return [outcome.code for outcome in found.results]


@pytest.mark.parametrize("limited", ["0", "4"])
async def test_a_rate_limit_that_others_did_not_meet_is_the_outcome_of_its_session(limited: str) -> None:
    found, _ = await changed([str(number) for number in range(6)], lambda id: LIMITED if id == limited else None)
    assert codes(found) == ["rate_limited" if str(number) == limited else None for number in range(6)]
    assert (found.refused, [one.session for one in found.results].count(VIEW)) == (1, 5)


async def test_a_rate_limit_that_all_meet_refuses_the_request() -> None:
    with pytest.raises(RateLimited):
        await changed(["a", "b"], lambda _: LIMITED)


@pytest.mark.parametrize("error", [LIMITED, Unavailable("the database is away")])
async def test_what_would_fail_likewise_is_not_tried_after_such_an_error(error: AliquotError) -> None:
    ids = [str(number) for number in range(TOGETHER + 5)]
    found, tried = await changed(ids, lambda id: error if id == "3" else None)
    assert tried == ids[:TOGETHER]
    assert codes(found) == [error.code if id == "3" or id not in tried else None for id in ids]


async def test_an_error_of_the_server_loses_no_outcome_of_other_sessions(caplog: pytest.LogCaptureFixture) -> None:
    ids = [str(number) for number in range(TOGETHER + 5)]
    found, tried = await changed(ids, lambda id: KeyError("a fault") if id == "3" else None)
    assert tried == ids
    assert codes(found) == ["internal" if id == "3" else None for id in ids]
    assert "KeyError: 'a fault'" in caplog.text
