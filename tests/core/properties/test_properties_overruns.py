"""Overruns: the head still holds a reservation, and only the overrun delays it."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import Reservation
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Pool, Preemption, PreemptScope
from aliquot_schema.sessions import DEFAULT_POOL
from core_effort import examples
from core_policies import every_promise
from core_simulation import ClusterSimulation
from core_simulations import simulations

POOLS = {DEFAULT_POOL: Pool(default_limit_ms=20_000)}
"""Sessions without a limit are planned with this, but not ended by it."""
PASSES_MAX = 120
Span = tuple[int, int]


@every_promise
@examples(8)
@given(data=st.data())
def test_only_an_overrun_delays_the_reservation_of_the_head(policy: Policy, data: st.DataObject) -> None:
    rules = replace(policy, preemption=Preemption(preempt=PreemptScope.NONE), pools=POOLS)
    simulation = data.draw(simulations(rules, overruns=True))
    promised: Reservation | None = None
    relied_on: list[Span] = []
    for _ in range(PASSES_MAX):
        plan = simulation.decide()
        line = simulation.ordered_queue(plan)
        starts = {placement.session_id for placement in plan.placements}
        head = next((one for one in line if one.session_id not in starts and _fits_alone(one, simulation)), None)
        now = plan.promises[0] if plan.promises else plan.reservation
        assert (now and now.session_id) == (head and head.session_id)
        assert now is None or _at(now) > simulation.now_us
        if promised is not None and not _is_overtaken(promised.session_id, line, simulation):
            starts_us = simulation.now_us if promised.session_id in starts or now is None else _at(now)
            has_overrun = any(
                planned_us <= simulation.now_us and ended_us > planned_us for planned_us, ended_us in relied_on
            )
            assert starts_us <= _at(promised) or has_overrun
        simulation.apply(plan)
        promised, relied_on = now, [] if now is None else _gone_by(_at(now), simulation)
        if not simulation.advance(plan):
            return


def _fits_alone(row: PendingRow, simulation: ClusterSimulation) -> bool:
    """Whether it would start alone on an empty cluster."""
    empty = replace(simulation.snapshot(), used={}, running=(), holders={}, queue=(row,))
    return bool(decide(empty, simulation.policy, now_us=simulation.now_us, seed=7).placements)


def _is_overtaken(session_id: SessionId, line: list[PendingRow], simulation: ClusterSimulation) -> bool:
    """Whether a session that fits the cluster is ahead now; those ahead at its reservation all started."""
    names = [row.session_id for row in line]
    return any(_fits_alone(row, simulation) for row in line[: names.index(session_id)])


def _gone_by(at_us: int, simulation: ClusterSimulation) -> list[Span]:
    """Planned and actual ends of running sessions expected to end by then."""
    found = [(runner.row, runner.ends_us) for runner in simulation.running.values()]
    return [(row.ends_us, ends_us) for row, ends_us in found if expected_end_us(row, now_us=simulation.now_us) <= at_us]


def _at(promise: Reservation) -> int:
    assert promise.at_us is not None
    return promise.at_us
