"""A server that must lead waits for the seat, and names its holder on a timeout."""

import pytest

from aliquot.service.leadership.election import PATIENCE_S, LockTimeout
from aliquot_schema.errors import Unavailable
from service_stage import StepClock

THEY = "http://they:8090"


def test_it_ends_when_somebody_has_had_the_seat_all_the_while() -> None:
    clock = StepClock()
    patience = LockTimeout(clock=clock)
    patience.check(THEY)
    clock.passes(PATIENCE_S - 1)
    patience.check(THEY)
    clock.passes(2)
    with pytest.raises(Unavailable, match=f"{THEY} leads this database.*--no-local-agents"):
        patience.check(THEY)


def test_it_begins_anew_when_the_seat_was_free() -> None:
    clock = StepClock()
    patience = LockTimeout(clock=clock)
    patience.check(THEY)
    clock.passes(PATIENCE_S - 1)
    patience.check(None)
    patience.check(THEY)
    clock.passes(2)
    patience.check(THEY)


def test_a_leader_that_does_not_say_where_it_is_counts_too() -> None:
    clock = StepClock()
    patience = LockTimeout(clock=clock)
    patience.check("")
    clock.passes(PATIENCE_S + 1)
    with pytest.raises(Unavailable, match="another server leads"):
        patience.check("")
