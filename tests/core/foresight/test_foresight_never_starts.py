"""Sessions that start in no future: forecasts do not run to the end for them."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.foresight import forecast
from aliquot.core.foresight.arrivals import ArrivalHistory
from aliquot.core.foresight.bands import Corrections
from aliquot.core.foresight.engine import Engine
from aliquot.core.foresight.never_starts import never_starting
from aliquot.core.foresight.run_times import RunHistory
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.simulation.cluster import pool
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import SlotAmounts
from aliquot_schema.sessions import Dependency, DependencyCondition
from aliquot_schema.states import SessionState
from core_cluster import row
from foresight_states import HOUR_US, RandomForecastCase, random_case

NOW_US = 10**15
WEEK_US = 7 * 24 * HOUR_US
LATER = DependencyCondition.AFTER_ANY


def waiting(name: str, *, gpus: int = 1, after: str | None = None, **more: Any) -> PendingRow:
    links = () if after is None else (Dependency(session_id=SessionId(after), condition=LATER),)
    return replace(row(name, at=NOW_US - 100, cuda_device=str(gpus)), **{"depends_on": links, **more})


def never(*rows: PendingRow, waited_for: Mapping[str, SessionState] | None = None, **more: Any) -> list[str]:
    states = {SessionId(name): state for name, state in (waited_for or {}).items()}
    state = Snapshot(revision=1, agents=pool(2), used={}, queue=rows, dependencies=states, **more)
    return sorted(never_starting(state, Policy(), until_us=NOW_US + WEEK_US))


def test_held_impossible_and_far_postponed_sessions_never_start() -> None:
    held = waiting("held", state=SessionState.HELD)
    large = waiting("large", gpus=3)
    late, soon = (waiting(name, not_before_us=NOW_US + us) for name, us in (("late", WEEK_US), ("soon", WEEK_US - 1)))
    assert never(held, large, late, soon, waiting("plain")) == ["held", "large", "late"]


def test_a_session_above_its_quota_never_starts_and_one_that_fills_it_may() -> None:
    name = quota_id(QuotaScope.USER, "bob")
    most = SlotAmounts({"cuda.device": 1})
    quota = Quota(id=name, scope=QuotaScope.USER, name="bob", max_slots=most, gpu_hours_per_month=0)
    bob = UserId("bob")
    rows = [waiting(f"s{gpus}", gpus=gpus, owner=bob) for gpus in (1, 2)]
    assert never(*rows, waiting("another", gpus=2), quotas={name: quota}) == ["s2"]


def test_a_session_that_depends_on_one_that_does_not_end_never_starts() -> None:
    held = waiting("held", state=SessionState.HELD)
    rows = [held, waiting("a", after="held"), waiting("b", after="a"), waiting("c", after="plain"), waiting("plain")]
    queued = dict.fromkeys(("held", "a", "plain"), SessionState.QUEUED)
    assert never(*rows, waited_for=queued) == ["a", "b", "held"]
    for state in (SessionState.COMPLETED, None):
        ended = {} if state is None else {"gone": state}
        assert never(waiting("after", after="gone"), waited_for=ended) == []


@pytest.mark.parametrize("on", ["ses_a", "ses_a_1"])
def test_who_depends_on_a_job_array_or_its_task_waits_for_its_end(on: str) -> None:
    tasks = waiting("ses_a", tasks=Intervals.of([0, 1]), tasks_startable=2)
    after, queued = waiting("after", after=on), {on: SessionState.QUEUED}
    assert never(tasks, after, waited_for=queued) == []
    held = replace(tasks, state=SessionState.HELD)
    assert never(held, after, waited_for=queued) == ["after", "ses_a"]
    again = waiting("ses_a_0", state=SessionState.HELD)
    stuck = ["after"] if on == "ses_a" else []
    assert never(tasks, again, after, waited_for=queued) == sorted([*stuck, "ses_a_0"])
    assert never(after, waited_for=queued) == ["after"]


def test_who_depends_on_one_that_fails_by_its_own_dependency_may_start() -> None:
    """The large one never starts, but leaves the queue when the first one has not failed."""
    failing = (Dependency(session_id=SessionId("first"), condition=DependencyCondition.AFTER_FAIL),)
    large = waiting("large", gpus=3, depends_on=failing)
    rows = [waiting("first"), large, waiting("after", after="large")]
    queued = dict.fromkeys(("first", "large"), SessionState.QUEUED)
    assert never(*rows, waited_for=queued) == ["large"]
    assert never(replace(rows[0], state=SessionState.HELD), *rows[1:], waited_for=queued) == ["after", "first", "large"]


def held_back(seed: int) -> RandomForecastCase:
    """A random scene with held, timed and dependent sessions."""
    found, dice = random_case(seed), random.Random(seed)
    rows, states = list(found.snapshot.queue), dict(found.snapshot.dependencies)
    for place, one in enumerate(rows):
        kind, other = dice.choice(["held", "later", "after", *[""] * 7]), dice.choice(rows).session_id
        if kind == "held":
            rows[place] = replace(one, state=SessionState.HELD)
        elif kind == "later":
            rows[place] = replace(one, not_before_us=found.now_us + dice.randrange(2 * WEEK_US))
        elif kind == "after":
            states[other] = SessionState.QUEUED
            link = Dependency(session_id=other, condition=dice.choice(list(DependencyCondition)))
            rows[place] = replace(one, depends_on=(link,))
    snapshot = replace(found.snapshot, queue=rows, dependencies=states)
    future = replace(found.future, cancels_us={})  # waiting sessions are not canceled in futures of forecasts
    return RandomForecastCase(snapshot=snapshot, policy=found.policy, future=future, now_us=found.now_us)


@pytest.mark.parametrize("seed", range(25))
def test_neither_engine_starts_a_session_that_never_starts(seed: int) -> None:
    found = held_back(seed)
    until_us = found.now_us + WEEK_US
    named = never_starting(found.snapshot, found.policy, until_us=until_us)
    for exact in (False, True):
        engine = Engine(found.snapshot, found.policy, now_us=found.now_us, exact=exact)
        assert not named & set(engine.starts(found.future, until_us=until_us))


def test_a_held_session_does_not_slow_down_forecasts_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With busy arrivals, simulating a week took sixty times as long as simulating until the last start."""
    asked: list[list[str]] = []

    class Spy(Engine):
        def starts(self, *args: Any, wanted: Any = None, **more: Any) -> Any:
            asked.append(list(wanted))
            return super().starts(*args, wanted=wanted, **more)

    monkeypatch.setattr(forecast, "Engine", Spy)
    rows = [waiting("first", gpus=2), waiting("second", gpus=2), waiting("held", state=SessionState.HELD)]
    state = Snapshot(revision=1, agents=pool(2), used={}, queue=rows)
    history = RunHistory(), ArrivalHistory(), Corrections.new()
    found = forecast.forecast_all(state, Policy(), *history, now_us=NOW_US, samples=2)
    assert asked == [["second"], ["second"]]
    assert found[SessionId("held")].raw_start_us.p10 == NOW_US + WEEK_US
    assert list(forecast.forecast_all(state, Policy(), *history, now_us=NOW_US, wanted=[SessionId("held")])) == ["held"]
    assert len(asked) == 2
