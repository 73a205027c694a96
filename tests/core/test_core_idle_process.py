"""Idle process: the steps before an idle session loses its GPUs, and the pass that takes them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.idle_process import IdleCase, IdleObservation, acts_us, kept, next_case
from aliquot.core.model.snapshot import IdleHold, Snapshot
from aliquot.core.scheduler.reason_text import explain
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.policies import IdleAction, IdleRules, IdleStep
from aliquot_schema.sessions import PreemptionCause
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row
from ordering_scenes import busy, passed, runs

MINUTE_US = 60_000_000
RULES = IdleRules(tell_ms=1_800_000, again_ms=1_200_000, act_ms=600_000, keep_ms=3_600_000)
NAME = SessionId("ses_a")


def seen(minutes: int, **more: Any) -> IdleObservation:
    fields = {"gpus": ("gpu0",), "spell_us": minutes * MINUTE_US, "was_used": True, "is_used": False}
    return IdleObservation(idle_us=minutes * MINUTE_US, **(fields | more))


def step(
    known: IdleCase | None,
    found: IdleObservation | None,
    at_min: int,
    *,
    action: IdleAction = IdleAction.PREEMPT,
    attempt: int = 1,
) -> IdleCase | None:
    return next_case(
        known,
        found,
        session_id=NAME,
        attempt=attempt,
        action=action,
        rules=RULES,
        now_us=at_min * MINUTE_US,
    )


def taken(known: IdleCase | None, found: IdleObservation | None, at_min: int, **more: Any) -> IdleCase:
    case = step(known, found, at_min, **more)
    assert case is not None
    return case


def due(action: IdleAction = IdleAction.PREEMPT) -> IdleCase:
    first = taken(None, seen(30), 30, action=action)
    return taken(taken(first, seen(50), 50, action=action), seen(60), 60, action=action)


def test_an_idle_session_is_due_after_two_notices_to_its_owner() -> None:
    assert step(None, seen(29), 29) is None
    first = taken(None, seen(30), 30)
    assert (first.step, acts_us(first, RULES)) == (IdleStep.TOLD, 60 * MINUTE_US)
    assert step(first, seen(49), 49) is None
    again = taken(first, seen(50), 50)
    assert (again.step, acts_us(again, RULES)) == (IdleStep.TOLD_AGAIN, 60 * MINUTE_US)
    assert step(again, seen(59), 59) is None
    last = taken(again, seen(60), 60)
    assert (last.step, last.is_due) == (IdleStep.DUE, True)
    assert last.words() == "has not used its GPU for 1 h"
    assert IdleCase.of(last.as_facts()) == last


@pytest.mark.parametrize("action", [IdleAction.OFF, IdleAction.TELL, IdleAction.OBSERVE])
def test_a_policy_that_only_warns_or_observes_makes_no_session_due(action: IdleAction) -> None:
    first = step(None, seen(30), 30, action=action)
    if action is IdleAction.OFF:
        assert first is None
        return
    assert first is not None
    assert acts_us(first, RULES) is None
    again = taken(first, seen(50), 50, action=action)
    last = step(again, seen(60), 60, action=action)
    assert (last is not None, last is not None and last.is_due) == (action is IdleAction.OBSERVE, False)


def test_use_ends_an_idle_case_and_a_later_idle_period_starts_a_new_one() -> None:
    first = taken(None, seen(30), 30)
    assert taken(first, seen(0, is_used=True), 40).step is IdleStep.OVER
    between = taken(first, seen(2), 45)  # used between samples
    assert between.step is IdleStep.OVER
    assert step(between, seen(29), 80) is None
    assert taken(between, seen(30), 90).step is IdleStep.TOLD


def test_without_readings_no_idle_step_is_taken_and_a_new_leader_measures_again() -> None:
    again = taken(taken(None, seen(30), 30), seen(50), 50)
    assert step(again, None, 300) is None
    fresh = seen(5, was_used=False)
    assert step(again, fresh, 300) is None
    assert taken(again, seen(10, was_used=False), 305).step is IdleStep.DUE


def test_a_session_marked_as_needed_is_left_alone_for_a_while() -> None:
    case = kept(due(), RULES, now_us=61 * MINUTE_US)
    assert step(case, seen(100), 120) is None
    assert taken(case, seen(121), 121).step is IdleStep.TOLD
    assert acts_us(case, RULES) == (61 + 60 + 20 + 10) * MINUTE_US


def test_switching_the_policy_off_ends_an_idle_case() -> None:
    assert taken(due(), seen(61), 61, action=IdleAction.OFF).step is IdleStep.OVER


def test_an_attempt_that_lost_its_gpus_gets_no_further_notice_and_the_next_attempt_does() -> None:
    lost = replace(due(), step=IdleStep.ACTED)
    assert step(lost, seen(90), 90) is None
    assert taken(lost, seen(30, was_used=False), 190, attempt=2).step is IdleStep.TOLD


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=12))
def test_no_session_is_due_that_was_used_since_or_had_fewer_than_two_notices(course: list[tuple[int, bool]]) -> None:
    case, idle, at, steps = None, 0, 0, list[tuple[int, IdleStep]]()
    for minutes, is_used in course:
        at += minutes
        idle = 0 if is_used else idle + minutes
        found = step(case, seen(idle, is_used=is_used), at)
        if found is not None:
            case = found
            steps.append((at, found.step))
        if case is not None and case.is_due:
            told, again, last = steps[-3:]
            assert [told[1], again[1], last[1]] == [IdleStep.TOLD, IdleStep.TOLD_AGAIN, IdleStep.DUE]
            assert again[0] - told[0] >= 20
            assert last[0] - again[0] >= 10
            assert idle >= last[0] - told[0] + 30 - 10  # the whole time, at least that of the first step
            return


TWO = on("x", gpus(2))
BOTH = {"cuda.device": {"cuda0": 1, "cuda1": 1}}
ONE = {"cuda.device": {"cuda0": 1}}
OTHER = {"cuda.device": {"cuda1": 1}}
HOLD = IdleHold(idle_us=95 * MINUTE_US)


def scene(*running: Any, idle: dict[str, IdleHold], queue: Any = ()) -> Snapshot:
    return busy([TWO], running, queue, idle={SessionId(name): hold for name, hold in idle.items()})


def test_a_due_idle_session_is_preempted_for_a_waiting_one_which_gets_the_reason() -> None:
    idle = runs("idle", TWO, BOTH, ends_in_s=9000)
    waiting = row("next", cuda_device="2", owner=UserId("ben"))
    plan = passed(scene(idle, idle={"idle": HOLD}, queue=[waiting]))
    (eviction,) = plan.evictions
    assert (eviction.session_id, eviction.cause, eviction.ends) == ("idle", PreemptionCause.IDLE, False)
    assert (eviction.by_session, eviction.by_user) == ("next", "ben")
    told = "Starts when idle has released its GPUs, which it had not used for 1 h 35 min."
    assert explain(plan.verdicts[SessionId("next")]) == told
    leaving = scene(
        replace(idle, is_leaving=True), idle={"idle": replace(HOLD, by_session=SessionId("next"))}, queue=[waiting]
    )
    later = passed(leaving)
    assert (later.evictions, explain(later.verdicts[SessionId("next")])) == ((), told)


def test_a_due_idle_session_keeps_its_gpus_while_no_session_could_start_on_them() -> None:
    idle = runs("idle", TWO, ONE, ends_in_s=9000)
    busy_one = runs("busy", TWO, OTHER, ends_in_s=9000)
    assert passed(scene(idle, idle={"idle": HOLD})).evictions == ()
    big = scene(idle, busy_one, idle={"idle": HOLD}, queue=[row("big", cuda_device="2")])
    assert passed(big).evictions == ()
    free = scene(idle, idle={"idle": HOLD}, queue=[row("small", cuda_device="1")])
    assert (placed(passed(free)), passed(free).evictions) == (["small"], ())


def test_the_longest_idle_session_is_preempted_first_and_only_as_many_as_needed() -> None:
    rows = [runs("short", TWO, ONE, ends_in_s=9000), runs("long", TWO, OTHER, ends_in_s=9000)]
    holds = {"short": HOLD, "long": replace(HOLD, idle_us=200 * MINUTE_US, ends=True)}
    (eviction,) = passed(scene(*rows, idle=holds, queue=[row("next", cuda_device="1")])).evictions
    assert (eviction.session_id, eviction.ends) == ("long", True)


def test_while_one_idle_session_leaves_for_a_waiting_one_the_others_keep_their_gpus() -> None:
    rows = [runs("one", TWO, ONE, ends_in_s=9000), runs("other", TWO, OTHER, ends_in_s=9000)]
    leaving = replace(rows[0], is_leaving=True)
    holds = {"one": replace(HOLD, by_session=SessionId("next")), "other": HOLD}
    queue = [row("next", cuda_device="1")]
    assert passed(scene(leaving, rows[1], idle=holds, queue=queue)).evictions == ()
    both = [*queue, row("third", cuda_device="1")]
    (eviction,) = passed(scene(leaving, rows[1], idle=holds, queue=both)).evictions
    assert (eviction.session_id, eviction.by_session) == ("other", "third")


def test_a_gang_gets_the_gpus_of_two_idle_sessions_and_its_reason_names_both() -> None:
    rows = [runs("one", TWO, ONE, ends_in_s=9000), runs("other", TWO, OTHER, ends_in_s=9000)]
    holds = {"one": HOLD, "other": replace(HOLD, idle_us=200 * MINUTE_US)}
    plan = passed(scene(*rows, idle=holds, queue=[row("gang", cuda_device="1", cluster_size=2)]))
    assert [(one.session_id, one.by_session) for one in plan.evictions] == [("other", "gang"), ("one", "gang")]
    told = "Starts when other, one have released their GPUs, which they had not used for 1 h 35 min."
    assert explain(plan.verdicts[SessionId("gang")]) == told


def test_a_plan_without_idle_sessions_is_unchanged_by_the_idle_policy() -> None:
    idle = runs("idle", TWO, BOTH, ends_in_s=9000)
    queue = [row("next", cuda_device="1")]
    without = busy([TWO], [idle], queue)
    assert passed(replace(without, idle={})) == passed(without)
    assert passed(scene(idle, idle={"idle": HOLD}, queue=queue), now_us=NOW_US).evictions
