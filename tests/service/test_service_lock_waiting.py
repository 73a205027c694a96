"""A server that must lead waits for the seat, and names its holder on a timeout."""

import pytest

from aliquot.service.leadership.election import PATIENCE_S, LockTimeout
from aliquot_schema.errors import Unavailable
from service_stage import StepClock

THEY = "http://they:8090"


def test_waiting_for_the_leader_lock_ends_when_one_server_holds_it_too_long() -> None:
    clock = StepClock()
    patience = LockTimeout(clock=clock)
    patience.check(THEY)
    clock.advance(PATIENCE_S - 1)
    patience.check(THEY)
    clock.advance(2)
    with pytest.raises(Unavailable, match=f"{THEY} leads this database.*--no-local-agents"):
        patience.check(THEY)


def test_the_lock_timeout_starts_again_when_the_lock_was_free() -> None:
    clock = StepClock()
    patience = LockTimeout(clock=clock)
    patience.check(THEY)
    clock.advance(PATIENCE_S - 1)
    patience.check(None)
    patience.check(THEY)
    clock.advance(2)
    patience.check(THEY)


def test_a_leader_without_an_address_also_counts_for_the_lock_timeout() -> None:
    clock = StepClock()
    patience = LockTimeout(clock=clock)
    patience.check("")
    clock.advance(PATIENCE_S + 1)
    with pytest.raises(Unavailable, match="another server leads"):
        patience.check("")
