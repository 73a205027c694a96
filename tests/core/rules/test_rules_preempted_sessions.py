"""Preemption: the state of a preempted session, and whether it ended by itself."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.transitions import ended_by_itself, is_overdue, preempt, requeue_preempted, unstopped
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import PreemptionCause, PreemptionReceipt, Session
from aliquot_schema.states import KernelState, SessionState
from core_records import kernel, session

S, K = SessionState, KernelState
RECEIPT = PreemptionReceipt(
    cause=PreemptionCause.PRIORITY, by_session=SessionId("ses_2"), by_user=UserId("bob"), at_us=100, until_us=200
)


def leaving(*, checkpoint: bool = False, **fields: Any) -> Session:
    found = preempt(session(S.RUNNING), RECEIPT)
    signal = 10 if checkpoint else None
    return replace(found, spec=replace(found.spec, checkpoint_signal=signal), **fields)


def test_a_preempted_session_keeps_running_in_state_preempting() -> None:
    found = leaving()
    assert (found.state, found.preemption, found.attempt) == (S.PREEMPTING, RECEIPT, 1)
    with pytest.raises(AssertionError, match="ses_1 is queued"):
        preempt(session(S.QUEUED), RECEIPT)


def test_a_preempted_session_is_requeued_in_its_old_place_without_losing_a_retry() -> None:
    before = leaving(preemptions=1, scheduled_us=50, started_us=60)
    found = requeue_preempted(before, lost=77)
    assert (found.state, found.preemptions, found.attempt, found.queued_us) == (S.QUEUED, 2, 1, before.queued_us)
    assert (found.scheduled_us, found.started_us, found.ended_us) == (None, None, None)
    assert found.preemption == replace(RECEIPT, lost_ms=77)
    with pytest.raises(AssertionError, match="ses_1 is running"):
        requeue_preempted(session(S.RUNNING), lost=0)
    with pytest.raises(AssertionError, match="ses_1 was not preempted"):
        requeue_preempted(replace(before, preemption=None), lost=0)


@pytest.mark.parametrize(
    ("fields", "checkpoint", "expected"),
    [
        ({"exit_code": 0, "ended_us": 150}, False, True),
        ({"exit_code": 1, "ended_us": 99}, False, True),
        ({"exit_code": 1, "ended_us": 100}, False, False),
        ({"exit_code": 1, "ended_us": 150}, True, True),
        ({"exit_code": 1, "ended_us": 199}, True, True),
        ({"exit_code": 1, "ended_us": 200}, True, False),
        ({"exit_code": None, "signal": 10, "ended_us": 150}, True, False),
        ({"exit_code": None, "signal": 9, "ended_us": 50}, False, False),
        ({"exit_code": None, "timed_out": True, "ended_us": 250}, False, True),
        ({"exit_code": 1, "ended_us": None}, True, False),
    ],
)
def test_the_exit_of_a_preempted_session_shows_whether_it_ended_by_itself(
    fields: dict[str, Any], checkpoint: bool, expected: bool
) -> None:
    kernels = [kernel(K.EXITED, rank=0), kernel(K.EXITED, rank=1, **fields)]
    assert ended_by_itself(leaving(checkpoint=checkpoint), kernels) is expected


def test_a_session_that_was_not_preempted_cannot_be_checked_for_its_own_end() -> None:
    with pytest.raises(AssertionError, match="ses_1 was not preempted"):
        ended_by_itself(session(S.RUNNING), [kernel(K.EXITED, exit_code=1)])


def test_a_preempted_session_is_overdue_from_the_end_of_its_grace() -> None:
    assert [is_overdue(leaving(), now_us=now_us) for now_us in (199, 200, 201)] == [False, True, True]
    assert not is_overdue(replace(leaving(), state=S.RUNNING), now_us=500)
    assert not is_overdue(replace(leaving(), preemption=None), now_us=500)


def test_only_kernels_that_are_not_yet_stopping_or_exited_are_to_be_stopped() -> None:
    kernels = [kernel(state, rank=rank) for rank, state in enumerate((K.RUNNING, K.STOPPING, K.EXITED, K.STARTING))]
    assert [one.rank for one in unstopped(kernels)] == [0, 3]
