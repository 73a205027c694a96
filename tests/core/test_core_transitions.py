"""State transitions: only those of the tables, with the right counters."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core import transitions
from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.policies import Retries
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.sessions import Failure, Session, SessionSpec
from aliquot_schema.states import AGENT_MOVES, KERNEL_MOVES, SESSION_MOVES, AgentState, KernelState, SessionState
from core_records import agent, kernel, lease_of, session

S = SessionState
K = KernelState
NOW_US = 100
WHY = Failure(code="launch_refused", message="it was refused")
FAILED = kernel(K.EXITED, exit_code=1)
SESSION_VERBS: dict[str, tuple[Callable[[Session], Session], SessionState]] = {
    "schedule": (lambda was: transitions.schedule(was, now_us=NOW_US), S.SCHEDULED),
    "send": (transitions.send, S.ALLOCATING),
    "start": (lambda was: transitions.start(was, now_us=NOW_US), S.RUNNING),
    "cancel": (lambda was: transitions.cancel(was, now_us=NOW_US), S.CANCELED),
    "fail": (lambda was: transitions.fail(was, WHY, now_us=NOW_US), S.FAILED),
    "requeue": (lambda was: transitions.requeue(was, now_us=NOW_US, failure=WHY), S.QUEUED),
    "requeue_elsewhere": (
        lambda was: transitions.requeue(was, now_us=NOW_US, failure=WHY, without=AgentId("a")),
        S.QUEUED,
    ),
    "requeue_spent": (
        lambda was: transitions.requeue(replace(was, retries=99), now_us=NOW_US, failure=WHY),
        S.FAILED,
    ),
    "finish_well": (lambda was: transitions.finish(was, [kernel(K.EXITED)], now_us=NOW_US), S.COMPLETED),
    "finish_badly": (lambda was: transitions.finish(was, [FAILED], now_us=NOW_US), S.FAILED),
}


def report(phase: KernelPhase = KernelPhase.EXITED, **fields: Any) -> KernelReport:
    return KernelReport(kernel_id=kernel().id, phase=phase, **({"at_us": 50} | fields))


@pytest.mark.parametrize("before", SessionState)
@pytest.mark.parametrize("verb", SESSION_VERBS)
def test_a_session_makes_only_the_state_transitions_of_the_table(before: SessionState, verb: str) -> None:
    move, to = SESSION_VERBS[verb]
    was = session(before)
    if to not in SESSION_MOVES[before]:
        with pytest.raises(AssertionError):
            move(was)
        return
    moved = move(was)
    assert moved.state is to
    assert moved.version == was.version
    assert moved.is_ended == (moved.ended_us is not None)


@pytest.mark.parametrize("before", KernelState)
@pytest.mark.parametrize("to", KernelState)
def test_a_kernel_makes_only_the_state_transitions_of_the_table(before: KernelState, to: KernelState) -> None:
    moves: list[Callable[[], Any]] = [lambda: transitions.move_kernel(kernel(before), to)]
    if to is K.RUNNING:
        moves.append(lambda: transitions.start_kernel(kernel(before), report(), now_us=NOW_US))
    if to is K.EXITED:
        moves.append(lambda: transitions.end_kernel(kernel(before), report(), now_us=NOW_US))
    for move in moves:
        if to in KERNEL_MOVES[before]:
            assert move().state is to
        else:
            with pytest.raises(AssertionError):
                move()


@pytest.mark.parametrize("before", AgentState)
@pytest.mark.parametrize("to", AgentState)
def test_an_agent_makes_only_the_state_transitions_of_the_table(before: AgentState, to: AgentState) -> None:
    was = agent(state=before)
    if to is before:
        assert transitions.move_agent(was, to, now_us=NOW_US) is was
    elif to in AGENT_MOVES[before]:
        moved = transitions.move_agent(was, to, now_us=NOW_US)
        assert (moved.state, moved.state_changed_us) == (to, NOW_US)
    else:
        with pytest.raises(AssertionError):
            transitions.move_agent(was, to, now_us=NOW_US)


def test_a_new_attempt_begins_when_devices_are_given() -> None:
    again = transitions.schedule(session(S.QUEUED, attempt=2, not_before_us=7), now_us=NOW_US)
    assert (again.attempt, again.scheduled_us, again.not_before_us) == (3, NOW_US, None)


@pytest.mark.parametrize(
    ("retries", "wait_s"), [(0, 1), (1, 2), (2, 4), (7, 128), (8, 256), (9, 300), (99, 300)], ids=str
)
def test_failed_launches_are_retried_after_increasing_delays(retries: int, wait_s: int) -> None:
    patient = _with_retries(100, state=S.ALLOCATING, retries=retries, scheduled_us=5, started_us=6)
    again = transitions.requeue(patient, now_us=NOW_US, failure=WHY, retries=Retries(jitter_pct=0))
    assert again.not_before_us == NOW_US + wait_s * 1_000_000
    assert (again.retries, again.scheduled_us, again.started_us) == (retries + 1, None, None)
    assert again.queued_us == patient.queued_us


@pytest.mark.parametrize(("allowed", "tries"), [(0, 3), (1, 3), (3, 3), (5, 5), (100, 100)])
def test_retries_are_counted_and_the_last_failure_ends_the_session(allowed: int, tries: int) -> None:
    was = _with_retries(allowed, state=S.ALLOCATING)
    for count in range(1, tries + 1):
        was = transitions.requeue(replace(was, state=S.ALLOCATING), now_us=NOW_US, failure=WHY)
        assert (was.state, was.retries) == (S.QUEUED, count)
    last = transitions.requeue(replace(was, state=S.ALLOCATING), now_us=NOW_US, failure=WHY)
    assert (last.state, last.failure, last.ended_us) == (S.FAILED, WHY, NOW_US)


def test_an_agent_that_cannot_run_a_session_is_excluded_without_counting_a_retry() -> None:
    was = session(S.ALLOCATING, retries=3, excluded_agents=(AgentId("b"),))
    again = transitions.requeue(was, now_us=NOW_US, failure=WHY, without=AgentId("a"))
    assert (again.retries, again.not_before_us, again.excluded_agents) == (3, None, ("b", "a"))
    twice = transitions.requeue(replace(again, state=S.ALLOCATING), now_us=NOW_US, failure=WHY, without=AgentId("a"))
    assert twice.excluded_agents == ("b", "a")


def test_the_rank_that_failed_first_gives_the_exit_code() -> None:
    ranks = [
        kernel(K.EXITED, rank=0, ended_us=30, exit_code=None, signal=15),
        kernel(K.EXITED, rank=1, ended_us=20, exit_code=3),
        kernel(K.EXITED, rank=2, ended_us=10, exit_code=0),
        kernel(K.EXITED, rank=3, ended_us=20, exit_code=4),
    ]
    ended = transitions.finish(session(S.RUNNING, kernels=4), ranks, now_us=NOW_US)
    assert (ended.state, ended.exit_code, ended.signal) == (S.FAILED, 3, None)
    assert transitions.first_failed([kernel(K.STOPPING), kernel(K.EXITED)]) is None


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"exit_code": 3}, "exit_code", "exited with code 3"),
        ({"exit_code": None, "signal": 9}, "signal", "ended by signal 9"),
        ({"exit_code": None, "signal": 15, "timed_out": True}, "time_limit", "time limit"),
        ({"exit_code": 127, "message": "no such program"}, "exec_failed", "no such program"),
        ({"exit_code": None, "message": "the node was restarted"}, "kernel_lost", "the node was restarted"),
        ({"exit_code": None}, "kernel_lost", "lost without an exit code"),
    ],
)
def test_the_failure_of_a_session_gives_a_code_and_a_message(fields: dict[str, Any], code: str, words: str) -> None:
    was = session(S.RUNNING, retries=3)
    ended = transitions.finish(was, [kernel(K.EXITED, **fields)], now_us=NOW_US)
    assert ended.failure is not None
    assert ended.failure.code == code
    assert words in ended.failure.message


def test_the_jitter_of_a_retry_delay_is_reproducible_and_bounded() -> None:
    policy = Retries(wait_ms_first=10_000, wait_ms_max=300_000, jitter_pct=25)
    waits = [transitions.backoff_ms(session(id=SessionId(f"ses_{number}")), policy) for number in range(200)]
    assert waits == [transitions.backoff_ms(session(id=SessionId(f"ses_{number}")), policy) for number in range(200)]
    assert 7_500 <= min(waits) < 8_500 < 11_500 < max(waits) <= 12_500


@pytest.mark.parametrize(
    ("fields", "asked", "tries"),
    [
        ({"exit_code": None}, {}, 3),
        ({"exit_code": None}, {"max_retries": 5}, 5),
        ({"exit_code": 1}, {"max_retries": 5}, 0),
        ({"exit_code": 1}, {"max_retries": 2, "retries_own_failures": True}, 2),
        ({"exit_code": None, "signal": 9}, {"max_retries": 2}, 0),
        ({"exit_code": None, "signal": 9, "message": "its shim was killed"}, {}, 3),
        ({"exit_code": None, "timed_out": True}, {"max_retries": 2}, 0),
    ],
)
def test_system_failures_are_retried_and_failures_of_the_job_only_if_requested(
    fields: dict[str, Any], asked: dict[str, Any], tries: int
) -> None:
    plain = session(S.RUNNING)
    was = replace(plain, spec=SessionSpec(argv=("true",), slots=plain.spec.slots, **asked))
    for count in range(1, tries + 1):
        was = transitions.finish(replace(was, state=S.RUNNING), [kernel(K.EXITED, **fields)], now_us=NOW_US)
        assert (was.state, was.retries) == (S.QUEUED, count)
        assert was.not_before_us is not None
    last = transitions.finish(replace(was, state=S.RUNNING), [kernel(K.EXITED, **fields)], now_us=NOW_US)
    assert (last.state, last.exit_code) == (S.FAILED, fields["exit_code"])


@pytest.mark.parametrize("state", SessionState)
def test_only_an_ended_session_can_run_again_and_is_queued_as_if_submitted_now(state: SessionState) -> None:
    was = session(state, retries=3, fallback_level=0, exit_code=1)
    if not was.is_ended:
        with pytest.raises(AssertionError):
            transitions.run_again(was, now_us=NOW_US)
        return
    again = transitions.run_again(was, now_us=NOW_US)
    assert (again.state, again.queued_us, again.retries, again.attempt) == (S.QUEUED, NOW_US, 0, was.attempt)
    assert (again.ended_us, again.exit_code, again.failure) == (None, None, None)


@pytest.mark.parametrize(("told_us", "began_us"), [(50, 50), (NOW_US + 5, NOW_US), (3, 10)])
def test_a_start_time_is_kept_between_the_grant_and_now_despite_a_wrong_agent_clock(
    told_us: int, began_us: int
) -> None:
    started = transitions.start_kernel(kernel(K.STARTING), report(at_us=told_us), now_us=NOW_US)
    assert started.started_us == began_us


def test_a_kernel_that_is_found_again_keeps_its_first_start() -> None:
    found = transitions.start_kernel(kernel(K.UNKNOWN, started_us=20), report(at_us=70), now_us=NOW_US)
    assert found.started_us == 20


def test_a_lease_is_released_once() -> None:
    released = transitions.release(lease_of(kernel()), EndEvidence.TOMBSTONE, now_us=NOW_US)
    assert (released.released_us, released.evidence) == (NOW_US, EndEvidence.TOMBSTONE)
    with pytest.raises(AssertionError):
        transitions.release(released, EndEvidence.TOMBSTONE, now_us=NOW_US)


def _with_retries(allowed: int, **fields: Any) -> Session:
    plain = session(**fields)
    return replace(plain, spec=SessionSpec(argv=("true",), slots=plain.spec.slots, max_retries=allowed))
