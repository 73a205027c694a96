"""A busy run is replayed, pass by pass, from the event log and the ledger."""

import asyncio

import pytest
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.service.ledger.entries import LedgerReader
from aliquot.service.ledger.replay import Replayed, replay
from aliquot.store.ledger.encoding import verify
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.policies import PolicyDocument, Weights
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading
from ledger_workload import WAIT_S, workload_on
from long_tests import LONG
from store_places import Place

pytestmark = pytest.mark.anyio

KINDS = {"agent.draining", "session.preempting", "session.split", "quota.changed", "lease.granted", "policy.changed"}
"""Event kinds that each occur in a busy run."""


async def replayed(ledger: LedgerReader, *, policy: Policy | None = None) -> list[Replayed]:
    """The whole ledger; with another policy, its end."""
    keys = await ledger.last(100_000 if policy is None else 200)
    return [one async for one in replay(ledger, first=keys[0].number, last=keys[-1].number, policy=policy)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("place", "entries"),
    [("sqlite", 120), ("postgres", 120), pytest.param("sqlite", 1050, marks=LONG)],
    indirect=["place"],
)
async def test_a_busy_run_replays_without_a_difference(place: Place, entries: int) -> None:
    """The long run contains a checkpoint; how that is stored elsewhere is tested by a restart."""
    async with workload_on(place) as (workload, running):
        await workload.run_until_events(running, KINDS)
        await workload.run_until_entries(running.ledger, entries)
    store = place.store()
    await store.open()
    try:
        found = await replayed(store.ledger)
        assert [one.differences for one in found if one.differences][:3] == []
        assert len(found) >= entries
        assert sum(one.entry.lost for one in found) == 0
        assert sum(one.entry.checkpoint is not None for one in found) == 1 + len(found) // 1000
        other = PolicyDocument(weights=replace(Weights(), short=9))
        assert any(one.differences for one in await replayed(store.ledger, policy=Policy.of(other)))
    finally:
        await store.close()


async def test_a_restart_begins_with_a_checkpoint_and_continues_the_pass_numbers(place: Place) -> None:
    for _ in range(2):
        async with workload_on(place) as (workload, running):
            await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 30)
    store = place.store()
    await store.open()
    try:
        found = await replayed(store.ledger)
        numbers = [one.entry.number for one in found]
        assert numbers == sorted(set(numbers))
        assert [one.entry.epoch for one in found if one.entry.checkpoint is not None] == [1, 2]
        assert [one.differences for one in found if one.differences][:3] == []
        assert await store.read(verify) == len(found)
        entries = [one.entry for one in found]
        before, after = (
            next(one for one in entries[::step] if one.epoch == epoch) for step, epoch in ((-1, 1), (1, 2))
        )
        peaks = {**dict(before.inputs.backlogs), **before.plan.backlogs}
        assert dict(after.inputs.backlogs) == peaks != {}
        assert any(one.inputs.run_times for one in entries)
        assert any(one.inputs.workloads for one in entries)
    finally:
        await store.close()


async def test_foreign_usage_of_devices_is_recorded_as_input_of_a_pass(place: Place) -> None:
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 5)
        for pids in ((4711,), ()):
            async with asyncio.timeout(WAIT_S):
                while await _is_used(running.ledger) is not bool(pids):
                    workload.executor.report_readings(AgentId("b"), _readings(pids))
                    await workload.step()
                    await workload.service.reaper.run_once()
            await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 15)
        found = await replayed(running.ledger)
    assert [one.differences for one in found if one.differences][:3] == []
    assert len([one for one in found if one.entry.inputs.foreign_usage is not None]) >= 3


async def _is_used(ledger: LedgerReader) -> bool:
    """Whether the newest pass in the ledger had devices with foreign processes."""
    entries = await ledger.entries(first=1, last=2**31, limit=100_000)
    return [bool(entry.inputs.foreign_usage) for entry in entries if entry.inputs.foreign_usage is not None][-1]


def _readings(pids: tuple[int, ...]) -> tuple[DeviceReading, ...]:
    processes = tuple(DeviceProcess(pid=pid, memory_bytes=None) for pid in pids)
    return tuple(DeviceReading(device_id=DeviceId(f"b-gpu-{number}"), processes=processes) for number in range(4))
