"""Right-size advice: its values, and its hit rate on later runs."""

from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.right_size import HOUR_MS, MINUTE_MS, RUNS_MIN, NextRequest, PastRun, RequestPart, advised, right_size

GIB = 1 << 30


def runs(count: int, **same: int) -> list[PastRun]:
    return [PastRun(**{"duration_ms": 40 * MINUTE_MS, "milli": 1000, **same}) for _ in range(count)]  # type: ignore[arg-type]


def sizes(past: list[PastRun], wanted: NextRequest) -> dict[RequestPart, int]:
    return {found.measure: found.amount for found in right_size(past, wanted)}


def test_one_gpu_is_advised_if_one_of_four_was_used() -> None:
    past = runs(5, milli=4000, gpus_used=1)
    assert sizes(past, NextRequest(milli=4000, limit_ms=50 * MINUTE_MS)) == {RequestPart.GPUS: 1000}


def test_the_advised_share_and_gpu_memory_cover_past_use_with_a_margin() -> None:
    past = runs(5, share_used=310, memory_peak=20 * GIB)
    found = sizes(past, NextRequest(milli=1000, limit_ms=50 * MINUTE_MS))
    assert found == {RequestPart.SHARE: 400, RequestPart.GPU_MEMORY: 23 * GIB}


def test_no_gpu_memory_is_advised_if_it_saves_nothing() -> None:
    past = runs(5, memory_peak=72 * GIB, memory_total=80 * GIB)
    assert sizes(past, NextRequest(milli=1000, limit_ms=50 * MINUTE_MS)) == {}


def test_host_memory_is_advised_only_where_it_is_requested() -> None:
    past = runs(5, host_memory_peak=3 * GIB)
    wanted = NextRequest(milli=1000, host_memory=16 * GIB, limit_ms=50 * MINUTE_MS)
    assert sizes(past, wanted) == {RequestPart.MEMORY: 7 * GIB // 2}
    assert sizes(past, NextRequest(milli=1000, limit_ms=50 * MINUTE_MS)) == {}


def test_an_advised_time_limit_is_the_longest_run_plus_a_quarter_if_that_saves_time() -> None:
    past = [*runs(4), PastRun(duration_ms=100 * MINUTE_MS, milli=1000)]
    assert sizes(past, NextRequest(milli=1000, limit_ms=24 * HOUR_MS)) == {RequestPart.TIME_LIMIT: 135 * MINUTE_MS}
    assert sizes(past, NextRequest(milli=1000, limit_ms=140 * MINUTE_MS)) == {}
    assert sizes(past, NextRequest(milli=1000)) == {RequestPart.TIME_LIMIT: 135 * MINUTE_MS}


def test_no_shorter_limit_is_advised_after_a_run_was_cut_by_its_limit() -> None:
    past = [*runs(6), PastRun(duration_ms=HOUR_MS, is_cut=True, milli=1000)]
    assert sizes(past, NextRequest(milli=1000, limit_ms=24 * HOUR_MS)) == {}


def test_the_hit_rate_counts_later_runs_against_the_advice_before_them() -> None:
    minutes = [40, 40, 40, 41, 90, 40]
    past = [PastRun(duration_ms=length * MINUTE_MS, milli=1000) for length in minutes]
    [found] = right_size(past, NextRequest(milli=1000, limit_ms=24 * HOUR_MS))
    assert (found.enough, found.tested) == (2, 3), "the run of 90 minutes was longer than the 50 advised before it"
    assert found.amount == 120 * MINUTE_MS


def test_fewer_runs_than_needed_give_no_advice() -> None:
    assert right_size(runs(RUNS_MIN - 1, share_used=100), NextRequest(milli=1000)) == ()


@given(st.lists(st.integers(1, 10**9), min_size=RUNS_MIN, max_size=60), st.sampled_from(list(RequestPart)))
def test_advice_is_never_below_any_of_the_runs_it_is_made_from(needed: list[int], measure: RequestPart) -> None:
    amount = advised(measure, needed)
    assert amount is not None
    assert amount >= max(needed[-20:])
