"""Conservative backfill: every waiting session has a reservation, and no start delays one."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import Placement, Reservation
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, snapshot, waits
from core_effort import examples
from ordering_scenes import SECOND_US, busy, passed, runs

FOUR = on("x", gpus(4))
POLICY = Policy(backfill=Backfill.CONSERVATIVE)


def timed(name: str, gpus_each: int, seconds: int, *, at: int = 0) -> PendingRow:
    return row(name, at=at, cuda_device=str(gpus_each), limit_ms=seconds * 1000)


def test_conservative_backfill_does_not_delay_the_second_session_in_the_queue() -> None:
    """EASY lets `c` pass, as it does not delay the head; it would delay `b`, the second."""
    held = runs("r", FOUR, {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=100)
    queue = [timed("a", 4, 50), timed("b", 3, 50, at=1), timed("c", 2, 90, at=2), timed("d", 1, 400, at=3)]
    easy = passed(busy([FOUR], [held], queue), replace(POLICY, backfill=Backfill.EASY))
    assert placed(easy) == ["c"]
    plan = passed(busy([FOUR], [held], queue), POLICY)
    assert placed(plan) == ["c"]
    times = {str(one.session_id): one.at_us for one in plan.promises}
    assert times == {"a": NOW_US + 100 * SECOND_US, "b": NOW_US + 150 * SECOND_US, "d": NOW_US + 150 * SECOND_US}
    assert plan.reservation == plan.promises[0]


def test_a_session_beyond_the_backfill_depth_starts_only_if_it_delays_no_reservation() -> None:
    held = runs("r", FOUR, {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=100)
    queue = [timed("a", 4, 50), timed("long", 2, 101, at=1), timed("short", 2, 100, at=2)]
    plan = passed(busy([FOUR], [held], queue), replace(POLICY, backfill_depth=1))
    assert (placed(plan), len(plan.promises)) == (["short"], 1)
    assert waits(plan, "long").reason is Reason.INSUFFICIENT


def test_an_overdue_session_is_expected_to_run_on_for_as_long_as_it_has_overrun() -> None:
    for overrun_s, runs_on_s in ((0, 60), (5, 60), (61, 61), (7200, 7200)):
        held = runs("r", FOUR, {"cuda.device": {"cuda0": 1}}, ends_in_s=-overrun_s)
        queue = [timed("a", 4, 50), timed("long", 1, runs_on_s + 1, at=1), timed("short", 1, runs_on_s, at=2)]
        plan = passed(busy([FOUR], [held], queue), POLICY)
        assert placed(plan) == ["short"]
        times = {str(one.session_id): one.at_us for one in plan.promises}
        assert times == {"a": NOW_US + runs_on_s * SECOND_US, "long": NOW_US + (runs_on_s + 50) * SECOND_US}


@examples(80)
@given(
    held=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90)), unique_by=lambda pair: pair[0], max_size=4),
    asked=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 90)), min_size=1, max_size=7),
)
def test_promises_and_starts_never_overbook_at_any_time(
    held: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    running = [runs(f"r{d}", FOUR, {"cuda.device": {f"cuda{d}": 1}}, ends_in_s=s) for d, s in held]
    queue = [timed(f"q{number}", count, seconds, at=number) for number, (count, seconds) in enumerate(asked)]
    plan = passed(busy([FOUR], running, queue), POLICY)
    limits = {str(one.session_id): int(one.limit_ms or 0) * 1000 for one in queue}
    spans = [(NOW_US, one.ends_us, kernel) for one in running for kernel in one.kernels]
    starts: list[tuple[int, Placement | Reservation]] = [(NOW_US, one) for one in plan.placements]
    promised = [(one.at_us or NOW_US, one) for one in plan.promises]
    for at_us, one in [*starts, *promised]:
        spans += [(at_us, at_us + limits[str(one.session_id)], kernel) for kernel in one.kernels]
    for at_us, _, _ in spans:
        taken = [
            device
            for first, last, kernel in spans
            if first <= at_us < last
            for given_to in kernel.spec.values()
            for device in given_to
        ]
        assert len(taken) == len(set(taken))
    assert len(starts) + len(promised) == len(queue)


def test_an_empty_cluster_starts_all_that_fit() -> None:
    plan = passed(snapshot([FOUR], [timed("a", 3, 5), timed("b", 1, 500, at=1), timed("c", 1, 5, at=2)]), POLICY)
    assert placed(plan) == ["a", "b"]
    assert [one.at_us for one in plan.promises] == [NOW_US + 5 * SECOND_US]
