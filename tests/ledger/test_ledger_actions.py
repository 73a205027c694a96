"""Administrative actions that change no other record are in the event log and its chain, with old values."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from aliquot.execution.remote.agent_keys import KeyFile
from aliquot.service.admin.admin import Administration, Backups
from aliquot.service.agents.differences import Difference
from aliquot.service.agents.doctor import Examination
from aliquot.service.audit.agent_keys import KeyChangeRecorder
from aliquot.service.audit.audit import AuditQuery, Change
from aliquot.store.audit.log import AuditAuthor, note
from aliquot.store.integrity import checked
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.secrets.secrets import DatabaseSecrets, forget, rotate
from aliquot.store.store import DatabaseStore
from aliquot_schema.cluster.launching import AgentSilent, Inventory
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import AgentId, RequestId, UserId
from service_bench import agent
from service_stage import CALLER, Stage, stage
from store_places import Place

pytestmark = pytest.mark.anyio

A = AgentId("a")
ROOT = AuditAuthor(actor="unix:root", request_id=RequestId("req_hand"), at_us=1_700_000_000_000_000)
VALUE = "hush-hush"


@asynccontextmanager
async def staged(place: Place) -> AsyncIterator[tuple[Stage, DatabaseStore]]:
    """A stage on a database, verified at the end."""
    store = place.store()
    await store.open()
    assert isinstance(store, DatabaseStore)
    try:
        async with stage([agent("a", devices=2)], store=store) as on:
            yield on, store
        assert (await store.read(checked)).faults == []
    finally:
        await store.close()


def office(on: Stage) -> Administration:
    return Administration(state=on.state, journal=on.journal, clock=on.clock)


async def changes(store: DatabaseStore, kind: str) -> Sequence[Change]:
    """Oldest first."""
    return await store.book.changes(AuditQuery(kind=kind))


def of_caller(change: Change) -> bool:
    return (change.actor, change.request_id) == (CALLER.user, CALLER.request_id)


async def test_the_release_of_a_lost_agent_is_in_the_audit_log(place: Place) -> None:
    async with staged(place) as (on, store):
        on.executor.silent.add(A)
        await on.on_event(AgentSilent(agent_id=A, lost=True))
        await office(on).agents.release_lost_agent(CALLER, "a")
        told = [change for change in await changes(store, "agent") if of_caller(change)]
        assert [change.after["state"] for change in told] == ["left"]


async def test_copies_of_the_database_are_in_the_audit_log(place: Place) -> None:
    async with staged(place) as (on, store):
        if place.url:
            with pytest.raises(InvalidRequest):
                await office(on).backups.copy_database(CALLER)
            assert await changes(store, "action") == ()
            return
        backups = Backups(state=on.state, journal=on.journal, clock=on.clock, file=store)
        made = [await backups.copy_database(CALLER) for _ in range(2)]
        first, second = await changes(store, "action.database_copied")
        assert of_caller(first)
        assert (first.before, first.after["facts"]) == (None, {"path": made[0].path})
        assert (second.before, second.after["facts"]) == (None, {"path": made[1].path})
        copied = Place(f"sqlite:///{made[1].path}", place.folder).store()
        await copied.open()
        assert isinstance(copied, DatabaseStore)
        assert len(await changes(copied, "action.database_copied")) == 2, "a copy tells of itself"
        await copied.close()


class ReadsFiles:
    """Inspects idle agents."""

    def __init__(self, on: Stage) -> None:
        self._on = on

    async def inspect(self, agent_id: AgentId) -> tuple[Inventory, list[Difference]]:
        return Inventory(agent=self._on.state.agents[agent_id]), []


async def test_rescans_of_gpus_are_in_the_audit_log(place: Place) -> None:
    async with staged(place) as (on, store):
        inspector = ReadsFiles(on)
        doctor = Examination(state=on.state, journal=on.journal, clock=on.clock, inspector=lambda: inspector)  # type: ignore[arg-type,return-value]  # it inspects no cluster
        seen = await doctor.rescan(CALLER, "a")
        [told] = await changes(store, "action.gpu_maps_rescanned")
        assert of_caller(told)
        assert told.entity_id == "gpu_maps/a"
        facts = {"scanned": "0", "unreadable": "", "differences": "0", "gpu_alloc_map": seen.gpu_alloc_map}
        assert told.after["facts"] == facts
        everything = await doctor.rescan(CALLER, None)
        assert (everything.agent_id, everything.silent) == (None, ())
        assert set(everything.agents) == {agent for agent in on.state.agents}
        assert json.loads(everything.gpu_alloc_map).items() >= json.loads(seen.gpu_alloc_map).items()
        assert len(await changes(store, "action.gpu_maps_rescanned")) == 1 + len(on.state.agents)


async def test_changes_of_agent_keys_are_in_the_audit_log_without_the_keys(place: Place, tmp_path: Path) -> None:
    command, server = KeyFile(tmp_path / "keys.json"), KeyFile(tmp_path / "keys.json")
    async with staged(place) as (on, store):
        teller = KeyChangeRecorder(server, journal=on.journal, clock=on.clock)
        assert await teller.run_once() == 0
        secrets = [
            command.create(A, now_us=5, by="unix:root"),
            command.create(A, now_us=6, replace=True, by="unix:eve"),
        ]
        command.revoke(A, now_us=7, by="unix:root")
        unrecorded = server.unrecorded()
        assert await teller.run_once() == 3
        assert await teller.run_once() == 0
        told = await changes(store, "action")
        assert [change.kind.partition(".")[2] for change in told] == [
            "agent_key_created",
            "agent_key_replaced",
            "agent_key_revoked",
        ]
        assert [change.actor for change in told] == ["unix:root", "unix:eve", "unix:root"]
        assert [change.request_id for change in told] == [change.id for change in unrecorded]
        assert told[2].before is not None
        assert (told[2].before["facts"]["state"], told[2].after["facts"]["state"]) == ("replaced", "revoked")
        kept = command.entries()[A].sha256
        assert not any(text in str(told) for text in (*secrets, kept))


async def test_a_key_change_is_recorded_once_when_the_server_ends_before_it_is_marked_recorded(
    place: Place, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.create(A, now_us=5, by="unix:root")
    keys.revoke(A, now_us=6, by="unix:root")
    async with staged(place) as (on, store):

        class Ends(KeyFile):
            def mark_recorded(self, ids: object) -> None:
                raise OSError("the disk is full")

        for _ in range(3):
            with pytest.raises(OSError, match="full"):
                await KeyChangeRecorder(Ends(tmp_path / "keys.json"), journal=on.journal, clock=on.clock).run_once()
        assert await KeyChangeRecorder(keys, journal=on.journal, clock=on.clock).run_once() == 2
        assert len(await changes(store, "action")) == 2


async def test_key_rotation_and_removal_of_unreadable_secrets_are_in_the_audit_log(
    place: Place, tmp_path: Path
) -> None:
    keys, lost = SecretKeys(tmp_path / "keys"), SecretKeys(tmp_path / "lost")
    async with staged(place) as (on, store):
        secrets = DatabaseSecrets(store, keys=keys)
        await secrets.put(UserId("ann"), "token", VALUE, now_us=1)
        assert await rotate(store, keys=keys, by=ROOT) == 1
        lost.seal(b"x", owner="ann", name="x")
        assert await forget(store, keys=lost, by=ROOT) == 1
        await on.journal.catch_up()  # committed by another process
        rotated, forgotten = await changes(store, "action")
        assert rotated.after["facts"] == {"secrets": "1", "key": keys.ids()[0]}
        assert forgotten.after["facts"] == {"secrets": "1"}
        [names] = await changes(store, "secrets")
        assert (names.kind, names.entity_id) == ("secrets.forgotten", "ann")
        for change in (rotated, forgotten, names):
            assert (change.actor, change.request_id, change.at_us) == (ROOT.actor, ROOT.request_id, ROOT.at_us)
        assert await secrets.names(UserId("ann")) == ()


async def test_concurrent_commands_are_all_recorded(place: Place) -> None:
    """On PostgreSQL, where a server and other commands may run concurrently."""
    async with staged(place) as (on, store):
        others = [place.database() for _ in range(3 if place.url else 0)]
        for database in others:
            await database.open()
        work = partial(note, what="database_exported", facts={}, by=ROOT)
        writes = [store.write, *(database.write for database in others)]
        await asyncio.gather(*(write(work) for write in writes for _ in range(2)))
        for database in others:
            await database.close()
        await on.journal.catch_up()
        assert len(await changes(store, "action.database_exported")) == 2 + 2 * len(others)


async def test_a_command_on_a_database_without_events_records_nothing(place: Place) -> None:
    store = place.store()
    await store.open()
    assert isinstance(store, DatabaseStore)
    await store.write(lambda connection: note(connection, "database_exported", {}, by=ROOT))
    assert await changes(store, "action") == ()
    await store.close()
