"""Time steps, their usage, samples of devices and of the queue."""

from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import service_stage
from aliquot.service.history.grids import STEPS_S, Curves, Grid, covering, fitting
from aliquot.service.history.history import grid_of, held_span, span_of, usage_grid_of, while_held
from aliquot.service.history.measures import DEVICE_MEASURES, QueueSample
from aliquot.service.history.ports import HeldAmount
from aliquot.service.history.sampling import DeviceSampler, QueueSampling
from aliquot.service.history.series_views import points
from aliquot.service.history.usage import NAMED_MAX, ClusterSums, UsageSums
from aliquot.service.views.terms import moment
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import AgentId, DeviceId, ProjectId, SlotName, UserId, kernel_id
from aliquot_schema.resources.devices import DeviceReading
from history_stores import HOUR, SECOND, T0, roster, sample
from service_bench import agent, gpus

GRID = Grid(start_us=T0, step_us=HOUR, points=4)


def held(owner: str, since: float, until: float, *, device: str = "d", milli: int = 1000) -> HeldAmount:
    """In hours of the grid."""
    return HeldAmount(
        owner=UserId(owner),
        project=ProjectId("p"),
        agent_id=AgentId("a"),
        device_id=DeviceId(device),
        slot=SlotName("cuda.shares"),
        amount=milli,
        from_us=T0 + int(since * HOUR),
        ended_us=T0 + int(until * HOUR),
    )


def summed(
    *some: HeldAmount, loads: dict[str, Any] | None = None, milli: float | list[float] = nan
) -> dict[str | None, tuple[list[float], list[float | None]]]:
    """`milli` is what was held at the readings of `loads`; NaN = unknown."""
    sums = UsageSums(GRID, key=lambda one: one.owner, share=lambda one: one.amount / 1000)
    sums.add(some)
    curves = {}
    for device, load in (loads or {}).items():
        numbers = np.full((len(DEVICE_MEASURES), 8), nan)
        numbers[[0, 4]] = load, np.full(8, milli)
        curves[device] = Curves(mean=numbers, maximum=numbers)
    sums.add_load("a", fine=covering(T0, GRID.end_us, step_s=1800), curves=curves)
    return {one.name: (list(one.gpu_hours), list(one.utilization)) for one in sums.series()}


@given(since=st.integers(0, 10**15), span=st.integers(1, 10**15), most=st.integers(2, 2000), least=st.floats(0, 1e5))
def test_a_grid_covers_a_time_with_as_many_points_as_are_allowed(
    since: int, span: int, most: int, least: float
) -> None:
    grid = fitting(since, since + span, points=most, least_s=least)
    assert grid.start_us <= since < since + span <= grid.end_us
    assert grid.points <= most + 1
    assert grid.start_us % grid.step_us == 0
    assert grid.step_us >= min(least, STEPS_S[-1]) * SECOND


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (lambda: span_of(moment(T0), moment(T0), now_us=T0, usual_us=HOUR), "since"),
        (lambda: span_of(moment(1), None, now_us=T0, usual_us=HOUR), "since"),
        (lambda: grid_of((0, HOUR), points=1, least_s=1), "points"),
        (lambda: grid_of((0, HOUR), points=2001, least_s=1), "points"),
        (lambda: usage_grid_of((0, HOUR), step=90.0), "step"),
        (lambda: usage_grid_of((0, HOUR), step=float("nan")), "step"),
        (lambda: usage_grid_of((0, 10_000 * HOUR), step=60.0), "step"),
    ],
)
def test_history_requests_with_invalid_arguments_are_refused(asked: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked()
    assert refused.value.field == field


def test_gpu_hours_are_counted_in_the_steps_where_they_were_held() -> None:
    found = summed(held("ann", 0.5, 2.25), held("ann", 3, 9, milli=500), held("bob", -5, 0.25))
    assert found["ann"][0] == [0.5, 1.0, 0.25, 0.5]
    assert found["bob"][0] == [0.25, 0.0, 0.0, 0.0]
    assert list(found) == ["ann", "bob"]


def test_utilization_is_averaged_over_the_time_devices_were_held() -> None:
    loads = {"d": np.array([10.0, 90.0, 50.0, np.nan, np.nan, np.nan, 20.0, 20.0]), "e": np.full(8, 100.0)}
    found = summed(
        held("ann", 0.5, 2, device="d"), held("ann", 1, 1.5, device="e", milli=500), held("bob", 3, 4), loads=loads
    )
    assert found["ann"][1] == [90.0, round((50 * 1 + 100 * 0.5) / 1.5, 3), None, None]
    assert found["bob"][1] == [None, None, None, 20.0]


def test_idle_readings_before_and_after_a_device_was_held_do_not_count_as_its_use() -> None:
    """A step is as long as half an hour, and sessions are as short as a minute."""
    load = {"d": np.array([45.0, 0.0, 30.0, 20.0, 0.0, 99.5, 80.0, 80.0])}
    milli = [500.0, 0.0, 500.0, 500.0, 25.0, 600.0, 500.0, 500.0]
    some = (
        *(held("ann", 0, 0.25), held("ann", 0.6, 0.601)),
        *(held("ann", 1, 2, milli=250), held("bob", 1, 2, milli=250)),
        *(held("ann", 2, 2.0125), held("ann", 2.5, 2.8)),
        *(held("ann", 3, 3.25, milli=750), held("bob", 3.25, 3.5), held("bob", 3.5, 4)),
    )
    found = summed(*some, loads=load, milli=milli)
    assert found["ann"][1] == [90.0, 25.0, 100.0, 100.0]
    assert found["bob"][1][1] == 25.0


def test_users_with_little_use_are_summed_in_one_series() -> None:
    found = summed(*(held(f"u{number:04d}", 0, 1, milli=1000 - number) for number in range(NAMED_MAX + 3)))
    assert len(found) == NAMED_MAX + 1
    assert list(found)[-1] is None
    assert found[None][0][0] == pytest.approx(sum(1 - number / 1000 for number in range(NAMED_MAX, NAMED_MAX + 3)))


def test_a_session_sees_readings_of_its_devices_only_while_it_held_them() -> None:
    mine = [held("ann", 1, 1.5, device="d"), held("ann", 3, 4, device="d"), held("ann", 1, 4, device="e")]
    numbers = np.ones((5, 4))
    found = while_held({"d": Curves(mean=numbers, maximum=numbers)}, mine, grid=GRID, now_us=GRID.end_us)
    assert points(found["d"].mean[0]) == (None, 1.0, None, 1.0)
    assert held_span(mine, now_us=0) == (T0 + HOUR, T0 + 4 * HOUR)


def test_a_short_session_does_not_see_the_rest_of_a_long_step() -> None:
    numbers = np.ones((5, 4))
    curves = {"d": Curves(mean=numbers, maximum=numbers)}
    mine = [held("ann", 0.9, 2), held("ann", 2.1, 2.2), held("ann", 3, 3.1)]
    after, meanwhile = (
        points(while_held(curves, mine, grid=GRID, now_us=T0 + int(now * HOUR))["d"].mean[0]) for now in (9, 3.1)
    )
    assert after == (None, 1.0, None, None)
    assert meanwhile == (None, 1.0, None, 1.0)
    minutes = Grid(start_us=T0, step_us=60 * SECOND, points=4)
    assert points(while_held(curves, [held("ann", 0, 0.001)], grid=minutes, now_us=T0 + HOUR)["d"].mean[0])[0] == 1.0


def test_gpus_of_several_agents_count_once_and_outdated_samples_do_not_count() -> None:
    sums = ClusterSums()
    assert isnan(sums.at(T0).total)
    sums.note(sample(roster("a", 2, node="n"), T0, 50.0, held=250.0))
    other = roster("a", 2, node="n")
    sums.note(sample(other, T0, 1.0, held=250.0))
    sums.note(sample(roster("b", 1), T0 - 59 * SECOND, 0.0))
    found = sums.at(T0)
    assert (found.total, found.held, found.held_idle) == (3.0, 1.5, 1.5)
    assert sums.at(T0 + 30 * SECOND).total == 2.0


@pytest.mark.anyio
async def test_a_device_sample_combines_readings_with_the_held_shares() -> None:
    async with service_stage.stage([agent("a", devices=2)]) as stage:
        tap, readings = DeviceSampler(stage.state), (DeviceReading(device_id=gpus(1)[0].id, utilization_pct=40.0),)
        told = NewReadings(agent_id=AgentId("a"), at_us=5, readings=readings)
        await stage.submit(slots=[("cuda.shares", "0.25")])
        await stage.advance()
        found = tap.sample(told, at_us=7)
        assert found is not None
        assert (found.at_us, found.roster.counted) == (7, (True, True))
        assert [values[0] for values in found.values] == [40.0, None]
        assert sorted(values[4] or 0.0 for values in found.values) == [0.0, 250.0]
        assert tap.sample(NewReadings(agent_id=AgentId("x"), at_us=5, readings=readings), at_us=7) is None


@pytest.mark.anyio
async def test_a_queue_sample_counts_submitted_started_and_ended_sessions() -> None:
    async with service_stage.stage([agent("a", devices=1)]) as stage:
        taken: list[QueueSample] = []
        sampling = QueueSampling(stage.state, take=taken.append)
        stage.journal.subscribe(sampling.on_event)
        first, second = await stage.submit(), await stage.submit()
        stage.clock.advance(30)
        await stage.advance()
        sampling.sample(1)
        stage.executor.end_kernel(kernel_id(first, attempt=1, rank=0))
        await stage.settle()
        await stage.cancel(second)
        sampling.sample(2)
        numbers = [(one.pending, one.running, one.submitted, one.started, one.ended) for one in taken]
        assert numbers == [(1, 1, 2, 1, 0), (0, 0, 0, 0, 2)]
        assert taken[0].waited_s == pytest.approx(30, abs=1)
        fresh = QueueSampling(stage.state, take=taken.append)
        fresh.sample(3)
        assert taken[-1].running == 0
