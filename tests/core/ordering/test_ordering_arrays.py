"""Job arrays, fallbacks and preferences in a pass."""

from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import ANYWHERE
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from allocation_devices import gpus
from core_cluster import NOW_US, decided, on, placed, row, snapshot, waits
from ordering_scenes import passed

FOUR = on("x", gpus(4))
EASY = Policy(backfill=Backfill.EASY)


def test_tasks_of_an_array_start_one_by_one_in_order_of_their_indices() -> None:
    array = row("a", tasks=Intervals.parse("3-5,9,20-99"), tasks_startable=100)
    plan = passed(snapshot([FOUR], [array, row("b", at=1)]), EASY)
    assert [(one.session_id, one.index) for one in plan.placements] == [("a", 3), ("a", 4), ("a", 5), ("a", 9)]
    assert waits(plan, "a").reason is Reason.INSUFFICIENT
    assert plan.reservation is None or plan.reservation.session_id == "a"


def test_an_array_starts_no_more_tasks_than_its_limit() -> None:
    array = row("a", tasks=Intervals.parse("0-9"), tasks_startable=2)
    plan = passed(snapshot([FOUR], [array, row("b", at=1)]), EASY)
    assert placed(plan) == ["a", "a", "b"]
    assert waits(plan, "a").reason is Reason.ARRAY_LIMIT
    none_left = passed(snapshot([FOUR], [replace(array, tasks_startable=0)]), EASY)
    assert waits(none_left, "a").reason is Reason.ARRAY_LIMIT


def test_an_array_whose_tasks_all_start_has_no_waiting_reason() -> None:
    plan = passed(snapshot([FOUR], [row("a", tasks=Intervals.parse("0-2"), tasks_startable=3)]), EASY)
    assert (placed(plan), plan.verdicts) == (["a", "a", "a"], {})


def test_a_fallback_is_taken_when_its_time_has_come_and_not_before() -> None:
    big = row("a", cuda_device="8", falls_back_us=NOW_US, fallback_level=1)
    wide = on("y", gpus(8))
    held = {"node-y": {f"cuda{index}": 1000 for index in range(5)}}
    assert decided([wide], [big], used=held).fallbacks == {"a": 2}
    early = decided([wide], [replace(big, falls_back_us=NOW_US + 7)], used=held)
    assert (early.fallbacks, early.wake_at_us) == ({}, NOW_US + 7)
    assert decided([wide], [big]).fallbacks == {}


def test_labels_and_pools_limit_where_a_session_may_run() -> None:
    fast = replace(on("fast"), labels={"net": "ib"}, pool="gpu")
    slow = replace(on("slow"), pool="gpu")
    anywhere = replace(ANYWHERE, pool="gpu")
    wants = replace(anywhere, labels=(("net", "ib"),))
    queue = [row(str(number), at=number, where=wants) for number in range(3)]
    plan = passed(snapshot([fast, slow], queue), EASY)
    assert [kernel.agent_id for one in plan.placements for kernel in one.kernels] == ["fast", "fast"]
    assert waits(plan, "2").reason is Reason.INSUFFICIENT
    assert waits(passed(snapshot([fast, slow], [row("a")]), EASY), "a").reason is Reason.NO_AGENT


def test_preferred_labels_and_models_are_used_if_free_and_not_waited_for() -> None:
    fast = replace(on("fast"), labels={"net": "ib"})
    slow = on("slow", gpus(2, model="A100"))
    likes = replace(ANYWHERE, preferred_labels=(("net", "ib"),))
    plan = passed(snapshot([fast, slow], [row(str(n), at=n, where=likes) for n in range(3)]), EASY)
    assert [kernel.agent_id for one in plan.placements for kernel in one.kernels] == ["fast", "fast", "slow"]
    models = replace(ANYWHERE, preferred_models=("a100",))
    (first,) = passed(snapshot([fast, slow], [row("a", where=models)]), EASY).placements
    assert first.kernels[0].agent_id == "slow"
    only = replace(ANYWHERE, models=("H*",))
    (first,) = passed(snapshot([fast, slow], [row("a", where=only)]), EASY).placements
    assert first.kernels[0].agent_id == "fast"
