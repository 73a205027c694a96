"""Runs of a history: sessions that run at its beginning, and what sessions see of those that they depend on."""

import pytest
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.simulation.history_run import run_history
from aliquot.core.simulation.recorded_history import (
    AttemptEnd,
    DecisionContext,
    HistoryRunSettings,
    HoldStep,
    RecordedAttempt,
    RecordedFact,
    RecordedHistory,
    RecordedSession,
)
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.policies import Preemption, PreemptScope
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState
from allocation_devices import gpus
from core_cluster import NOW_US, on, row, snapshot
from ordering_scenes import busy, runs

SECOND_US = 1_000_000
POLICY = Policy(order="priority", preemption=Preemption(preempt=PreemptScope.ANY, run_ms_min=0, grace_ms=1_000))


def recorded(name: str, *attempts: RecordedAttempt, state: SessionState) -> RecordedSession:
    return RecordedSession(
        name=SessionId(name),
        owner=UserId("ann"),
        project=ProjectId("lab"),
        milli=1000,
        submitted_us=NOW_US,
        attempts=attempts,
        state=state,
    )


def attempt(at_s: int, lasts_s: int, *, returns: PendingRow | None = None) -> RecordedAttempt:
    """A run that is preempted if it `returns`."""
    release = HoldStep(offset_us=lasts_s * SECOND_US, since_us=lasts_s * SECOND_US, released=(0,))
    return RecordedAttempt(
        granted_us=NOW_US + at_s * SECOND_US,
        steps=(HoldStep(offset_us=1, since_us=1, started_us=1), release),
        end=AttemptEnd.ENDED if returns is None else AttemptEnd.PREEMPTED,
        run_us=lasts_s * SECOND_US,
        evicted_us=None if returns is None else (lasts_s - 1) * SECOND_US,
        returns=returns,
        returns_us=lasts_s * SECOND_US,
    )


def test_a_session_that_depends_on_one_canceled_after_its_preemption_starts() -> None:
    first = row("first", at=NOW_US, priority=Priority.LOW)
    urgent = row("urgent", at=NOW_US + 10 * SECOND_US, priority=Priority.CRITICAL)
    later = row("later", at=NOW_US + 30 * SECOND_US, after=[("first", "after_any")])
    agents = (on("n", gpus(1)),)
    around = DecisionContext(agents=agents, quotas={}, policy=POLICY, asked={}, foreign={}, dependencies={})
    seen = replace(around, dependencies={SessionId("first"): SessionState.CANCELED})
    history = RecordedHistory(
        since_us=NOW_US,
        until_us=NOW_US + 200 * SECOND_US,
        begins_us=NOW_US,
        snapshot=snapshot(agents, []),
        surroundings=around,
        facts=(
            RecordedFact(at_us=NOW_US, arrival=first),
            RecordedFact(at_us=NOW_US + 10 * SECOND_US, arrival=urgent),
            RecordedFact(at_us=NOW_US + 20 * SECOND_US, withdrawal=SessionId("first")),
            RecordedFact(at_us=NOW_US + 30 * SECOND_US, surroundings=seen),
            RecordedFact(at_us=NOW_US + 30 * SECOND_US, arrival=later),
        ),
        sessions={
            SessionId("first"): recorded("first", attempt(0, 11, returns=first), state=SessionState.CANCELED),
            SessionId("urgent"): recorded("urgent", attempt(11, 60), state=SessionState.COMPLETED),
            SessionId("later"): recorded("later", attempt(71, 60), state=SessionState.COMPLETED),
        },
        passes_us=(),
    )
    outcome = run_history(history, HistoryRunSettings(exact=True))
    assert outcome.preemptions == {"first": 1}
    assert {name: (at_us - NOW_US) // SECOND_US for name, at_us in outcome.granted_us.items()} == {
        "first": 0,
        "urgent": 11,
        "later": 71,
    }


@pytest.mark.parametrize("is_exact", [False, True])
def test_a_session_that_runs_from_the_beginning_to_the_end_keeps_its_gpu(is_exact: bool) -> None:
    agent = on("n", gpus(1))
    running = runs("long", agent, {"cuda.device": {"cuda0": 1}}, ends_in_s=3600)
    around = DecisionContext(agents=(agent,), quotas={}, policy=POLICY, asked={}, foreign={}, dependencies={})
    usage = Usage().held(running.milli, user=running.owner, project=running.project, now_us=NOW_US)
    open_ended = RecordedAttempt(granted_us=NOW_US - 60 * SECOND_US, steps=(), end=AttemptEnd.OPEN)
    history = RecordedHistory(
        since_us=NOW_US,
        until_us=NOW_US + 200 * SECOND_US,
        begins_us=NOW_US,
        snapshot=busy((agent,), [running], [], usage=usage),
        surroundings=around,
        facts=(RecordedFact(at_us=NOW_US, arrival=row("next", at=NOW_US)),),
        sessions={
            SessionId("long"): recorded("long", open_ended, state=SessionState.RUNNING),
            SessionId("next"): recorded("next", attempt(0, 60), state=SessionState.COMPLETED),
        },
        passes_us=(),
    )
    outcome = run_history(history, HistoryRunSettings(exact=is_exact))
    assert outcome.granted_us["next"] > NOW_US + 200 * SECOND_US
