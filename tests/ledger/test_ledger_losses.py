"""The ledger when it cannot be written, when its server is killed, and when old entries expire."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, delete

from aliquot.service.ledger import recorder as recording_module
from aliquot.service.ledger.entries import PassEntry, PassKey
from aliquot.service.ledger.replay import Replayed, replay
from aliquot.service.ports import NotLeader, StoreUnavailable
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.integrity import verified
from aliquot.store.ledger.encoding import LEDGER
from aliquot.store.ledger.ledger import DatabaseLedger
from aliquot.store.ledger.tables import CHAINS, CHECKPOINTS, PASSES
from aliquot.store.store import DatabaseStore
from aliquot_schema.errors import NotFound
from ledger_workload import RandomWorkload, workload_on
from store_places import Place, now_us

pytestmark = pytest.mark.anyio


async def replayed(ledger: DatabaseLedger, *, first: int | None = None) -> list[Replayed]:
    keys = await ledger.last(100_000)
    return [one async for one in replay(ledger, first=first or keys[0].number, last=keys[-1].number)]


async def steps(workload: RandomWorkload, count: int) -> None:
    for _ in range(count):
        await workload.step()


async def test_an_outage_delays_entries_and_loses_none(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording_module, "RETRY_S", 0.01)
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 10)
        refused: list[int] = []

        async def refuse(entries: Sequence[PassEntry]) -> None:
            refused.append(len(entries))
            raise StoreUnavailable("the disk is full")

        with monkeypatch.context() as outage:
            outage.setattr(running.ledger, "append", refuse)
            while len(refused) < 3:
                await steps(workload, 20)
        await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 10)
        found = await replayed(running.ledger)
        assert [one.differences for one in found if one.differences] == []
        assert [one.entry.lost for one in found if one.entry.lost] == []
    assert caplog.text.count("the decision ledger cannot be written, retrying: the disk is full") == 1
    assert caplog.text.count("the decision ledger is written again") == 1


async def test_lost_passes_are_recorded_and_the_ledger_continues(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_module, "RETRY_S", 0.01)
    monkeypatch.setattr(recording_module, "UNWRITTEN_MAX", 5)
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 10)
        recording = workload.service.recording
        assert recording is not None

        async def refuse(entries: Sequence[PassEntry]) -> None:
            raise StoreUnavailable("the disk is full")

        with monkeypatch.context() as outage:
            outage.setattr(running.ledger, "append", refuse)
            while not recording.watch.lost:
                await steps(workload, 20)
        await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 20)
        found = await replayed(running.ledger)
        assert [one.differences for one in found if one.differences] == []
        (after,) = [one.entry for one in found if one.entry.lost]
        assert after.lost >= 5
        assert after.checkpoint is not None
        assert (await running.read(verified)).passes >= len(found)


async def test_scheduling_continues_when_the_ledger_has_a_fault(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording_module, "RETRY_S", 0.01)
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 5)
        recording = workload.service.recording
        assert recording is not None

        async def fail(entries: Sequence[PassEntry]) -> None:
            raise ValueError("no such encoding")

        with monkeypatch.context() as fault:
            fault.setattr(running.ledger, "append", fail)
            while not recording.watch.lost:
                await steps(workload, 20)
        await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 10)
        found = await replayed(running.ledger)
        assert [one.differences for one in found if one.differences] == []
        assert sum(one.entry.lost for one in found) > 0
    assert "no such encoding" in caplog.text


async def test_a_gap_left_by_a_killed_server_is_reported_at_the_next_start(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    def forget(connection: Connection) -> None:
        """As if the server had been killed before writing these."""
        with connection.begin():
            connection.execute(delete(PASSES).where(PASSES.c.number > kept.number))
            connection.execute(delete(CHECKPOINTS).where(CHECKPOINTS.c.number > kept.number))
            ends = {"last_number": kept.number, "last_hash": connection.execute(kept_hash).scalar_one()}
            connection.execute(CHAINS.update().values(ends))

    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 30)
    store = place.store()
    await store.open()
    kept = (await store.ledger.last(20))[0]
    kept_hash = PASSES.select().with_only_columns(PASSES.c.hash).where(PASSES.c.number == kept.number)
    await store.write(forget)
    await store.close()
    async with workload_on(place, seed=2) as (workload, running):
        await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 10)
        found = await replayed(running.ledger)
    (after,) = [one.entry for one in found if one.entry.lost]
    assert (after.epoch, after.checkpoint is not None) == (3, True)
    assert f"{after.lost} passes before this start are missing in the decision ledger" in caplog.text
    assert [one.differences for one in found if one.differences] == []


async def test_old_entries_are_removed_up_to_a_checkpoint_and_the_chain_continues(place: Place) -> None:
    for seed in (1, 2, 3):
        async with workload_on(place, seed=seed, keeps_time=True) as (workload, running):
            await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 15)
    store = place.store()
    await store.open()
    try:
        before = await store.ledger.last(1000)
        starts = [key.number for key in before if key.has_checkpoint]
        (second,) = await store.ledger.entries(first=starts[1], last=starts[1], limit=1)
        assert await expired(store, second.now_us) == starts_before(before, starts[0])
        gone = await expired(store, second.now_us + 1)
        left = await store.ledger.last(1000)
        assert (gone, left[0].number) == (starts_before(before, starts[1]), starts[1])
        assert (await store.read(verified)).passes == len(left)
        assert [one.differences for one in await replayed(store.ledger) if one.differences] == []
        with pytest.raises(NotFound, match="does not reach back to pass"):
            await replayed(store.ledger, first=starts[0])
    finally:
        await store.close()


async def expired(store: DatabaseStore, before_us: int) -> int:
    """Remove older entries; returns their number."""
    history = DatabaseHistory(store, folder=None, epoch=None, now_us=now_us)
    await history.seal_ledger(before_us)
    removed = 0
    while gone := await history.remove_passes():
        removed += gone
    return removed


def starts_before(keys: Sequence[PassKey], number: int) -> int:
    """The count of entries below a number."""
    return sum(key.number < number for key in keys)


async def test_a_server_that_leads_no_more_writes_nothing(place: Place) -> None:
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 10)
    store = place.store()
    await store.open()
    try:
        keys = await store.ledger.last(1)
        (entry,) = await store.ledger.entries(first=keys[0].number, last=keys[0].number, limit=1)
        with pytest.raises(NotLeader):
            await store.ledger.append([replace(entry, number=entry.number + 1)])
        await store.ledger.append([replace(entry, number=entry.number + 1, epoch=2)])
        await store.ledger.append([replace(entry, number=entry.number + 1, epoch=2)])
        assert [key.number for key in await store.ledger.last(2)] == [entry.number, entry.number + 1]
        await asyncio.gather(*(store.ledger.append([replace(entry, number=entry.number + 2, epoch=2)]) for _ in "ab"))
        assert (await store.read(verified)).passes == len(await store.ledger.last(1000))
    finally:
        await store.close()


async def test_first_appends_at_the_same_time_write_their_entry_once(place: Place) -> None:
    """That of a cancelled loop goes on while the server closes and appends the same again."""

    def emptied(connection: Connection) -> None:
        with connection.begin():
            for table in (CHECKPOINTS, PASSES):
                connection.execute(delete(table))
            connection.execute(delete(CHAINS).where(CHAINS.c.id == LEDGER))

    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 10)
    store = place.store()
    await store.open()
    try:
        [key] = await store.ledger.last(1)
        [entry] = await store.ledger.entries(first=key.number, last=key.number, limit=1)
        await store.write(emptied)
        await asyncio.gather(*(store.ledger.append([replace(entry, epoch=2)]) for _ in range(4)))
        assert [one.number for one in await store.ledger.last(5)] == [entry.number]
    finally:
        await store.close()
