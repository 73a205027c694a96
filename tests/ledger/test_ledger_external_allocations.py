"""Replay of external allocations while the orchestrator is stopped now and then."""

from itertools import count, takewhile

import pytest

from aliquot.service.ledger.replay import replay
from aliquot.store.ledger.encoding import verify
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.views.preview import NewExternalAllocation
from ledger_workload import OPERATOR, RandomWorkload, workload_on
from store_places import Place

pytestmark = pytest.mark.anyio

ANN = Caller(user=UserId("ann"), request_id="req_ann", role=Role.USER)
ROUNDS = 60
"""Minimum."""
COUNTS = ("1", "0.5", "2", "9")
"""For each job; the last never fits."""
EVENTS = {"lease.renewed", "session.expired", "orchestration.stopped", "orchestration.started"}
ANSWERS = {"given", "renewed", "released", "not_placed", "not_found"}


async def act(workload: RandomWorkload) -> str:
    """One call for an external allocation; its outcome, in a word."""
    allocations, draw = workload.service.external_allocations, workload.draw
    number = draw.randrange(len(COUNTS))
    job = f"job {number}"
    try:
        if draw.random() < 0.3:
            await allocations.release(ANN, job)
            return "released"
        asked = NewExternalAllocation(job_id=job, gpu_count=COUNTS[number], lease=draw.choice((60.0, 3600.0)))
        held = await allocations.allocate(ANN, asked)
        return "renewed" if held.renewed else "given"
    except AliquotError as error:
        return error.code


@pytest.mark.timeout(900)
async def test_passes_with_external_allocations_replay_without_a_difference(place: Place) -> None:
    seen: set[str] = set()
    kinds: set[str] = set()
    async with workload_on(place) as (workload, running):
        workload.service.journal.subscribe(lambda event: kinds.add(event.kind))
        admin = workload.service.administration
        await admin.policy.update_policy(OPERATOR, {"order": "fair_share"}, None)
        for lease in (60.0, 3600.0):  # later there may be no free GPU, and so nothing to hold
            await workload.service.external_allocations.allocate(
                ANN, NewExternalAllocation(job_id="job 1", gpu_count="0.5", lease=lease)
            )
        for number in takewhile(lambda number: number < ROUNDS or not (kinds >= EVENTS and seen >= ANSWERS), count()):
            seen.add(await act(workload))
            for _ in range(4):
                await workload.step()
            if number % 20 == 10:
                await admin.pause.stop_orchestrator(OPERATOR, None)
            if number % 20 == 13:
                await admin.pause.start_orchestrator(OPERATOR, None)
        await admin.pause.start_orchestrator(OPERATOR, None)
        workload.clock.advance(10_000)
        workload.service.allocator.wake()
        while workload.service.state.external_allocations.ends():
            await workload.step()
        await workload.run_until_entries(running.ledger, 20)
    store = place.store()
    await store.open()
    try:
        keys = await store.ledger.last(100_000)
        found = [one async for one in replay(store.ledger, first=keys[0].number, last=keys[-1].number)]
        assert [one.differences for one in found if one.differences][:3] == []
        assert len(found) == await store.read(verify)
    finally:
        await store.close()
