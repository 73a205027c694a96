"""Refusals of sessions of others: they name the session as its owner does."""

from collections.abc import Callable

import pytest

from aliquot.service.access import check_may_change, check_may_read_output
from aliquot_schema.errors import Forbidden
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.sessions import Session
from core_records import session

OTHER = Caller(user=UserId("ben"), request_id="req_1", role=Role.USER)


@pytest.mark.parametrize("check", [check_may_change, check_may_read_output])
def test_a_refusal_has_the_name_and_the_id_of_the_session(check: Callable[[Caller, Session], None]) -> None:
    one = session(name="train")
    with pytest.raises(Forbidden, match=rf"^train \({one.id}\) belongs to ann; "):
        check(OTHER, one)
