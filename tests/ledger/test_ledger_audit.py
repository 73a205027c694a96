"""The audit: device holders match the log, environment values stay private, and tampering is detected."""

from collections.abc import Sequence

import pytest
from msgspec.json import encode
from msgspec.structs import asdict
from sqlalchemy import Connection, select, text

from aliquot.service.audit.audit import AuditQuery
from aliquot.store.audit.holdings import HOLDINGS, follow_all, held_at
from aliquot.store.audit.log import Account, changes, redacted
from aliquot.store.hash_chain import ChainBroken
from aliquot.store.integrity import verified
from aliquot.store.store import DatabaseStore
from aliquot_schema.events import Event
from aliquot_schema.identity.accounts import ApiKey, KeyScope
from aliquot_schema.ids import KeyId, UserId
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import Session
from ledger_workload import workload_on
from store_places import Place

pytestmark = pytest.mark.anyio


async def written(place: Place, *, entries: int = 40) -> DatabaseStore:
    """A reopened store with some activity."""
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, entries)
        await workload.run_until_events(running, {"session.preempting"})
    store = place.store()
    await store.open()
    return store


async def test_the_holders_of_a_device_match_its_leases(place: Place) -> None:
    store = await written(place)
    try:
        await store.write(follow_all)
        events = await store.events_after(0, limit=1_000_000)
        leases = {event.record.id: event.record for event in events if isinstance(event.record, Lease)}
        passes = {event.entity_id: event.pass_number for event in events if event.kind == "lease.granted"}
        devices = sorted({place for lease in leases.values() for held in lease.spec.values() for place in held})
        moments = sorted({lease.granted_us for lease in leases.values()})[:: max(1, len(leases) // 20)]
        asked = 0
        for device in devices:
            for at_us in moments:
                expected = {
                    (lease.id, slot, held[device], passes[lease.id])
                    for lease in leases.values()
                    for slot, held in lease.spec.items()
                    if device in held and lease.granted_us <= at_us
                    if lease.released_us is None or lease.released_us > at_us
                }
                found = await store.read(lambda c, d=device, at=at_us: held_at(c, device_id=d, at_us=at))
                assert {(one.lease_id, one.slot, one.amount, one.pass_number) for one in found} == expected
                asked += len(expected)
        assert asked > 10
        await _preemptions_are_there(store, events)
    finally:
        await store.close()


async def _preemptions_are_there(store: DatabaseStore, events: Sequence[Event]) -> None:
    """Each lease of a preempted session says so."""
    asked = [event.record for event in events if event.kind == "session.preempting"]
    rows = await store.read(lambda c: c.execute(select(HOLDINGS).where(HOLDINGS.c.preempted_us.is_not(None))).all())
    expected = {f"{record.id}.{record.attempt}" for record in asked if isinstance(record, Session)}
    assert {row.lease_id.rpartition(".")[0] for row in rows} == expected


async def test_changes_are_listed_with_previous_values_and_without_secrets(place: Place) -> None:
    store = await written(place)
    try:
        found = await store.read(lambda c: changes(c, AuditQuery(limit=100_000)))
        assert "hunter2" not in str(found)
        assert "TOKEN" in str(found)
        started = next(one for one in found if one.kind == "session.running" and one.before is not None)
        assert started.before is not None
        assert (started.before["state"], started.after["state"]) == ("allocating", "running")
        people = await store.read(lambda c: changes(c, AuditQuery(people_only=True, limit=100_000)))
        assert {one.actor for one in people} <= {"ann", "bob", "cat", "dan", "root"}
        assert all(one.request_id for one in people)
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("name", "was"), [("stream/ann", None), ("backtest_started", None), ("template/vision/train", "first")]
)
async def test_an_action_has_all_its_facts_and_none_of_another_one(name: str, was: str | None) -> None:
    told = Account()
    for version, what in ((2, "second"), (3, "second")):
        row: dict[str, object] = {
            "entity": "action",
            "entity_id": name,
            "entity_version": version,
            "actor": "ann",
            "request_id": "req_1",
        }
        payload = encode({"id": name, "version": version, "facts": {"what": what}}).decode()
        row |= {"number": version, "at_us": 1, "kind": "action.done", "pass_number": None, "payload": payload}
        told.events.insert(0, row)
        told.payloads["action", name, version] = payload
    told.payloads["action", name, 1] = encode({"id": name, "version": 1, "facts": {"what": "first"}}).decode()
    first, again = told.changes()
    assert first.after["facts"] == {"what": "second"}
    assert (first.before or {}).get("facts") == (was and {"what": was})
    assert again.after.get("facts") == (None if was else {"what": "second"})


async def test_the_digest_of_a_key_is_redacted() -> None:
    key = ApiKey(id=KeyId("key_1"), user=UserId("ann"), name="laptop", scope=KeyScope.SUBMIT, digest="0123abcd")
    assert "0123abcd" not in str(redacted(asdict(key)))


@pytest.mark.parametrize(
    "fields",
    ['{"environment": "TOKEN=hunter2"}', '{"environment": [{"value": "hunter2"}]}', '["hunter2"]', '{"a": hunter2'],
)
async def test_environment_values_of_a_template_are_redacted(fields: str) -> None:
    facts = {"project": "vision", "name": "train", "fields": fields}
    assert "hunter2" not in str(redacted({"id": "template/vision/train", "facts": facts}))
    assert facts["fields"] == fields
    plain = {"id": "template/vision/train", "facts": facts | {"fields": '{"command": "x"}'}}
    assert redacted(plain) == plain


TAMPERING = (
    ("UPDATE events SET actor = 'mallory' WHERE number = 7", "event 7 was changed"),
    ("DELETE FROM events WHERE number = 7", "event 7 is missing"),
    ("UPDATE passes SET now_us = now_us + 1 WHERE number = (SELECT max(number) FROM passes)", "was changed"),
    ("DELETE FROM passes WHERE number = (SELECT max(number) FROM passes)", "the ledger ends at pass"),
    ("DELETE FROM passes WHERE number = (SELECT min(number) FROM passes)", "or passes before it are missing"),
    ("DELETE FROM passes", "the ledger is empty"),
    ("UPDATE checkpoints SET body = prev_hash FROM passes", "the checkpoint of pass 1 was changed"),
)


async def test_tampering_is_found(place: Place) -> None:
    def tamper(connection: Connection) -> None:
        for statement, words in TAMPERING:
            with connection.begin() as transaction:
                connection.execute(text(statement))
                with pytest.raises(ChainBroken, match=words):
                    verified(connection)
                transaction.rollback()

    store = await written(place, entries=10)
    try:
        await store.write(tamper)
        assert (await store.read(verified)).unwritten == 0
    finally:
        await store.close()


CHANGED_HOLDINGS = (
    ("UPDATE holdings SET owner = 'mallory' WHERE lease_id = {first}", "differs from the log"),
    ("UPDATE holdings SET from_us = from_us + 1 WHERE lease_id = {first}", "differs from the log"),
    ("UPDATE holdings SET ended_us = NULL WHERE lease_id = {first}", "differs from the log"),
    ("UPDATE holdings SET ended_event = ended_event + 1 WHERE lease_id = {first}", "differs from the log"),
    ("UPDATE holdings SET device_id = device_id || 'x' WHERE lease_id = {first}", "differs from the log"),
    ("DELETE FROM holdings WHERE lease_id = {first}", "differs from the log"),
    ("DELETE FROM holdings", "differs from the log"),
    ("UPDATE holdings SET pass_number = pass_number + 1 WHERE lease_id = {first}", "has not granted"),
    ("UPDATE holdings SET granted_event = granted_event + 1 WHERE lease_id = {first}", "has not granted"),
    ("UPDATE holdings SET lease_id = 'nobodys' WHERE lease_id = {first}", "has not granted nobodys"),
    ("DELETE FROM marks", "has not granted"),
    (
        "UPDATE holdings SET preempted_by = 'mallory' WHERE preempted_by IS NOT NULL",
        "preemption of .* differs from the log",
    ),
    ("UPDATE holdings SET preempted_us = NULL", "preemption of .* differs from the log"),
    ("UPDATE holdings SET preempted_us = 1, preempted_by = 'x' WHERE preempted_us IS NULL", "no event preempts"),
)
FIRST = "(SELECT lease_id FROM (SELECT min(lease_id) AS lease_id FROM holdings WHERE ended_us IS NOT NULL) AS one)"


async def test_holdings_that_are_not_what_the_log_says_are_found(place: Place) -> None:
    def tamper(connection: Connection) -> None:
        for statement, words in CHANGED_HOLDINGS:
            with connection.begin() as transaction:
                connection.execute(text(statement.format(first=FIRST)))
                with pytest.raises(ChainBroken, match=words):
                    verified(connection)
                transaction.rollback()

    store = await written(place)
    try:
        await store.write(follow_all)
        rows = await store.read(lambda c: c.execute(select(HOLDINGS)).all())
        assert (await store.read(verified)).holdings == len(rows) > 20
        await store.write(tamper)
    finally:
        await store.close()
