"""Saved work: what a checkpoint keeps, what a requeue loses, and the owner's credit."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.fairshare import HALF_LIFE_MS, Usage, UsageBalance
from aliquot.core.saved_work import AttemptLoss, after_loss, began, loss, saved, saved_since_preempted
from aliquot.core.transitions import ended_by_itself, preempt, requeue_preempted, run_again
from aliquot_schema.ids import AgentId, UserId
from aliquot_schema.policies import DAY_MS
from aliquot_schema.sessions import PreemptionCause, PreemptionReceipt, SavedWork, Session
from aliquot_schema.states import KernelState, SessionState
from core_records import kernel, session

S = SessionState
A, B = AgentId("a"), AgentId("b")
SECOND_US = 1_000_000
RECEIPT = PreemptionReceipt(
    cause=PreemptionCause.PRIORITY,
    by_session=None,
    by_user=UserId("bob"),
    at_us=100 * SECOND_US,
    until_us=200 * SECOND_US,
)


def running(work: SavedWork | None = None, *, attempt: int = 1, **spec: Any) -> Session:
    found = replace(session(S.RUNNING), started_us=SECOND_US, attempt=attempt, work=work)
    return replace(found, spec=replace(found.spec, **spec))


def kept(ms: int, *, attempt: int = 1, began_ms: int = 0) -> SavedWork:
    return SavedWork(kept_ms=ms, saved_us=1, agent_id=A, attempt=attempt, began_ms=began_ms)


def test_a_checkpoint_is_recorded_once_and_older_checkpoints_are_ignored() -> None:
    first = saved(None, attempt=1, saved_ms=500, agent_id=A, now_us=7)
    assert first == SavedWork(kept_ms=500, saved_us=7, agent_id=A, attempt=1)
    assert saved(first, attempt=1, saved_ms=500, agent_id=A, now_us=8) is first
    assert saved(first, attempt=0, saved_ms=900, agent_id=A, now_us=8) is first
    later = saved(first, attempt=2, saved_ms=700, agent_id=B, now_us=9)
    assert later == SavedWork(kept_ms=700, saved_us=9, agent_id=B, attempt=2, began_ms=500)


def test_work_missing_in_the_resumed_checkpoint_is_lost_and_credited() -> None:
    assert began(None, attempt=1, resumed_ms=0, note=None, milli=1000, now_us=5) is None
    whole = began(kept(500), attempt=2, resumed_ms=500, note=None, milli=1000, now_us=5)
    assert whole == replace(kept(500, attempt=2, began_ms=500))
    part = began(kept(500), attempt=2, resumed_ms=200, note="old", milli=2000, now_us=5)
    assert part == replace(
        kept(200, attempt=2, began_ms=200), note="old", lost_ms=600_000, credited_ms=600_000, credited_run_ms=300
    )
    assert began(part, attempt=2, resumed_ms=0, note=None, milli=2000, now_us=6) is part


@pytest.mark.parametrize(
    ("work", "spec", "own", "expected"),
    [
        (None, {}, False, (60_000, 60_000, 60_000)),
        (None, {}, True, (60_000, 0, 0)),
        (None, {"checkpoint_signal": 10}, False, (60_000, 0, 0)),
        (kept(40_000), {"checkpoint_signal": 10}, False, (20_000, 20_000, 20_000)),
        (kept(70_000, began_ms=50_000), {}, False, (40_000, 40_000, 40_000)),
        (kept(50_000, attempt=0), {}, False, (60_000, 60_000, 60_000)),
        (None, {"checkpoint_every_ms": 10_000}, False, (60_000, 15_000, 15_000)),
        (None, {"checkpoint_every_ms": 10_000, "grace_ms": 1_000}, False, (60_000, 11_000, 11_000)),
        (kept(55_000), {"checkpoint_every_ms": 10_000}, False, (5_000, 5_000, 5_000)),
        (kept(99_000), {}, False, (0, 0, 0)),
    ],
    ids=[
        *(
            "no checkpoint",
            "own fault",
            "asked and silent",
            "since the checkpoint",
            "of this attempt",
            "of an earlier one",
        ),
        *("beyond the promise", "own grace", "within the promise", "all kept"),
    ],
)
def test_lost_work_is_the_usage_since_the_last_checkpoint(
    work: SavedWork | None, spec: dict[str, Any], own: bool, expected: tuple[int, int, int]
) -> None:
    found = loss(running(work, **spec), used=60_000, ran_ms=60_000, grace_ms=5_000, is_own_fault=own)
    assert found == expected


@given(
    ran_ms=st.integers(0, 10**9),
    milli=st.integers(0, 10**6),
    kept_ms=st.integers(0, 10**9),
    every=st.integers(1, 10**8),
)
def test_a_credit_never_exceeds_the_usage(ran_ms: int, milli: int, kept_ms: int, every: int) -> None:
    used = ran_ms * milli
    promised = running(kept(kept_ms), checkpoint_every_ms=every)
    found = loss(promised, used=used, ran_ms=ran_ms, grace_ms=0, is_own_fault=False)
    assert 0 <= found.credited <= found.lost <= used
    assert 0 <= found.credited_run_ms <= min(ran_ms, every)


@given(
    days=st.integers(0, 60),
    run_ms=st.integers(1, 30 * DAY_MS),
    milli=st.integers(1, 8000),
    before=st.integers(0, 10**12),
)
def test_a_credit_undoes_exactly_what_the_run_was_charged(days: int, run_ms: int, milli: int, before: int) -> None:
    began_us = days * DAY_MS * 1000
    start = UsageBalance(used=before, charged=before, at_us=began_us)
    idle = start.held(0, now_us=began_us + run_ms * 1000)
    charged = start.held(milli, now_us=began_us).held(-milli, now_us=began_us + run_ms * 1000)
    undone = charged.credited(milli * run_ms, run_ms=run_ms)
    assert undone.charged == before
    assert abs(undone.used - idle.used) <= 2
    assert charged.credited(10**18, run_ms=run_ms).used == 0


def test_only_the_owner_is_credited_for_lost_work_and_only_once() -> None:
    usage = Usage(half_life_ms=HALF_LIFE_MS)
    for user in ("ann", "ben"):
        usage = usage.held(1000, user=UserId(user), project=running().project, now_us=0)
        usage = usage.held(-1000, user=UserId(user), project=running().project, now_us=60 * SECOND_US)
    before = running()
    after = replace(before, work=after_loss(before, AttemptLoss(50_000_000, 50_000_000, 50_000)))
    credited = usage.credited(before, after)
    charged = {user: balance.charged for (_, user), balance in credited.balances.items()}
    assert charged == {"ann": 10_000_000, "ben": 60_000_000}
    assert credited.credited(after, replace(after, version=9)) is credited


def test_a_checkpoint_after_the_preemption_notice_ends_the_wait_for_a_checkpoint() -> None:
    leaving = preempt(running(kept(90_000), checkpoint_signal=10), RECEIPT)
    assert not saved_since_preempted(leaving)
    done = replace(leaving, work=kept(100_000))
    assert saved_since_preempted(done)
    failed = kernel(KernelState.EXITED, ended_us=120 * SECOND_US, exit_code=1)
    assert ended_by_itself(leaving, [failed])
    assert not ended_by_itself(done, [failed])
    assert not ended_by_itself(leaving, [replace(failed, exit_code=85)])
    assert ended_by_itself(done, [replace(failed, exit_code=0)])
    assert requeue_preempted(done, lost=5).preemption == replace(RECEIPT, lost_ms=5, kept_ms=100_000)


def test_only_acknowledged_checkpoints_count_for_a_session_that_acknowledges() -> None:
    assert preempt(running(checkpoint_signal=10), RECEIPT).kept_ms == 99_000
    assert preempt(running(checkpoint_signal=10, checkpoint_every_ms=1), RECEIPT).kept_ms == 0
    assert preempt(running(kept(5), checkpoint_signal=10), RECEIPT).kept_ms == 5


def test_a_retry_drops_the_checkpoint_unless_it_is_requested() -> None:
    failed = replace(session(S.FAILED), work=replace(kept(500), lost_ms=9))
    assert run_again(failed, now_us=1, from_checkpoint=True).work == failed.work
    assert run_again(failed, now_us=1).work == SavedWork(attempt=1, lost_ms=9)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (running(), 0),
        (running(kept(9000, attempt=2, began_ms=4000), attempt=2), 4000),
        (running(kept(9000, attempt=2, began_ms=4000), attempt=3), 9000),  # its start has not been reported
        (replace(running(attempt=2), preemption=replace(RECEIPT, kept_ms=7000)), 7000),
    ],
)
def test_an_attempt_continues_the_work_of_the_checkpoint_that_it_started_from(one: Session, expected: int) -> None:
    assert one.kept_at_start_ms == expected


def test_a_credit_takes_from_a_month_only_what_the_run_was_charged_in_it() -> None:
    """A three-week run is lost ten hours into the new month, in which another session used 80 GPU-hours."""
    hour_us, began_us, turn_us, lost_us = (
        3_600_000_000,
        *(int(datetime(2026, *day, tzinfo=UTC).timestamp() * 1e6) for day in ((10, 10), (11, 1), (11, 1, 10))),
    )
    balance = UsageBalance().held(1000, now_us=began_us).held(8000, now_us=turn_us).held(-9000, now_us=lost_us)
    run_ms = (lost_us - began_us) // 1000
    credited = balance.credited(1000 * run_ms, run_ms=run_ms)
    assert balance.month_charged == 90 * hour_us
    assert credited.month_charged == 80 * hour_us
    assert credited.charged == 80 * hour_us
