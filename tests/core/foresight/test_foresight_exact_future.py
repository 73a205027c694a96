"""With known run times and arrivals, forecasts are exact to the microsecond."""

import pytest
from msgspec.structs import replace

from aliquot.core.foresight.engine import Arrival, Future, starts, unsupported
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.simulation.cluster import nodes
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Backfill, PolicyDocument
from core_simulation import ClusterSimulation, Job
from foresight_states import NOW_US, plain_rows

LIMITS_MS = {600_000: 400_000, 3_600_000: 900_000, 7_200_000: 7_000_000}
"""Time limits, and how long a session with that limit runs."""


@pytest.mark.parametrize("order", ["fair_share", "relative_age", "fcfs", "sjf"])
@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.NONE])
def test_with_exact_inputs_a_forecast_from_any_state_equals_the_actual_starts(order: str, backfill: Backfill) -> None:
    policy = Policy.of(PolicyDocument(order=order, backfill=backfill))
    simulation = _world(policy)
    states: list[tuple[int, Snapshot, Future]] = []
    while True:
        states.append((simulation.now_us, simulation.snapshot(), _future(simulation)))
        plan = simulation.decide()
        simulation.apply(plan)
        if not simulation.advance(plan):
            break
    assert len(simulation.started_us) == 60
    checked = 0
    for now_us, snapshot, future in states[:: len(states) // 12]:
        assert unsupported(snapshot, policy) is None
        found = starts(snapshot, policy, future, now_us=now_us)
        truth = {row.session_id: simulation.started_us[row.session_id] for row in snapshot.queue}
        assert {name: one.at_us for name, one in found.items()} == truth
        checked += len(truth)
    assert checked > 100


def _world(policy: Policy) -> ClusterSimulation:
    rows = plain_rows(60, seed=3)
    limits = list(LIMITS_MS)
    works = []
    for number, row in enumerate(rows):
        limit_ms = limits[number % len(limits)]
        estimated = replace(row, estimate_ms=limit_ms // 2, limit_ms=limit_ms)
        works.append(Job(row=estimated, duration_ms=LIMITS_MS[limit_ms] + number))
    return ClusterSimulation(agents=nodes(3, gpus_each=4), policy=policy, jobs=works, now_us=NOW_US)


def _future(simulation: ClusterSimulation) -> Future:
    """The actual future from now on."""
    lasts_us = {job.row.session_id: job.duration_ms * 1000 for job in simulation.jobs}
    coming = [job.row for job in simulation.jobs if job.row.queued_us > simulation.now_us]
    return Future(
        left_us={SessionId(name): runner.ends_us - simulation.now_us for name, runner in simulation.running.items()},
        run_us={row.session_id: lasts_us[row.session_id] for row in simulation.queue},
        arrivals=[
            Arrival(at_us=row.queued_us, row=row, run_us=lasts_us[row.session_id])
            for row in sorted(coming, key=lambda row: row.queued_us)
        ],
    )
