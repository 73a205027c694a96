"""Stored terms of earlier versions: their policies, events and passes are read with the same meaning."""

import json
import zlib
from functools import partial
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, select, update

import store_records as make
from aliquot.core.model.plan import Plan
from aliquot.service.ledger.entries import Checkpoint, Inputs, PassEntry
from aliquot.store.commit import commit_group
from aliquot.store.ledger.encoding import FOREIGN_USAGE_IN_PASS, pack, unpack
from aliquot.store.mapping import ENCODER, MAPPINGS, PREEMPT_IN_POLICY, decoder
from aliquot.store.queries.queries import events_after
from aliquot.store.store import Database
from aliquot.store.tables import EVENTS, POLICIES
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.policies import PolicyDocument, Preemption, PreemptScope
from aliquot_schema.sessions import Session

pytestmark = pytest.mark.anyio

WORDS = {"nobody": PreemptScope.NONE, "willing": PreemptScope.PREEMPTIBLE, "any": PreemptScope.ANY}
RULES = '{{"victims":"{}","run_ms_min":1000,"preemptions_max":2,"grace_ms":5000}}'
"""As version 0.1 stored it before the field had its present name."""


def _rules(scope: PreemptScope) -> Preemption:
    return Preemption(preempt=scope, run_ms_min=1000, preemptions_max=2, grace_ms=5000)


def _old_payload(document: PolicyDocument, word: str) -> str:
    fields = json.loads(ENCODER.encode(document))
    return json.dumps({**fields, "preemption": json.loads(RULES.format(word))}, separators=(",", ":"))


@pytest.mark.parametrize("word", WORDS)
async def test_a_policy_and_its_event_written_by_an_older_release_are_read(database: Database, word: str) -> None:
    document = PolicyDocument(version=1, order="priority")
    payload = _old_payload(document, word)
    (events,) = await database.write(partial(commit_group, batches=[make.batch(document)]))
    assert not isinstance(events, Exception), events

    def as_written_before(connection: Connection) -> None:
        with connection.begin():
            connection.execute(update(POLICIES).values(preemption=RULES.format(word)))
            connection.execute(update(EVENTS).where(EVENTS.c.entity == "policy").values(payload=payload))

    def stored(connection: Connection) -> PolicyDocument:
        return MAPPINGS[PolicyDocument].from_row(connection.execute(select(POLICIES)).one())  # type: ignore[return-value]

    await database.write(as_written_before)
    expected = replace(document, preemption=_rules(WORDS[word]))
    assert await database.read(stored) == expected
    (event,) = await database.read(partial(events_after, number=events[0].number - 1, limit=1))
    assert event.record == expected


class OldRules(msgspec.Struct):
    """From before the field had its present name: other fields are skipped, a missing one is the default."""

    victims: Literal["nobody", "willing", "any"] = "willing"


class OldPolicy(msgspec.Struct):
    preemption: OldRules


@pytest.mark.parametrize("word", WORDS)
async def test_an_older_release_reads_the_current_policy_and_its_event(database: Database, word: str) -> None:
    document = PolicyDocument(version=1, preemption=_rules(WORDS[word]))
    (events,) = await database.write(partial(commit_group, batches=[make.batch(document)]))
    assert not isinstance(events, Exception), events

    def stored(connection: Connection) -> tuple[str, str, PolicyDocument]:
        row = connection.execute(select(POLICIES)).one()
        payload = connection.execute(select(EVENTS.c.payload).where(EVENTS.c.entity == "policy")).scalar_one()
        return row.preemption, payload, MAPPINGS[PolicyDocument].from_row(row)  # type: ignore[return-value]

    column, payload, read = await database.read(stored)
    assert msgspec.json.decode(column, type=OldRules).victims == word
    assert msgspec.json.decode(payload, type=OldPolicy).preemption.victims == word
    assert read == document == MAPPINGS[PolicyDocument].from_payload(payload)


def test_a_pass_written_by_an_older_release_is_read() -> None:
    usage = ((NodeId("n1"), ((DeviceId("gpu-1"), 1000),)),)
    document = PolicyDocument(version=3, preemption=_rules(PreemptScope.NONE))
    checkpoint = Checkpoint(
        agents=(),
        slots=(),
        policy=document,
        quotas=(),
        sessions=(),
        kernels=(),
        leases=(),
        balances=(),
        half_life_ms=1,
        rates={},
    )
    entry = PassEntry(
        number=1,
        now_us=2,
        revision=3,
        seed=4,
        epoch=5,
        code_version="c",
        lost=0,
        inputs=Inputs(foreign_usage=usage),
        verdicts=(),
        plan=Plan(),
        checkpoint=checkpoint,
    )
    packed = pack(entry)
    assert packed.checkpoint is not None
    body = _rewritten(packed.body, '"foreign_usage":', '"external":')
    old = _rewritten(packed.checkpoint, '"preempt":"none"', '"victims":"nobody"')
    assert unpack(packed.columns, body=body, checkpoint=old) == entry


def _rewritten(compressed: bytes, now: str, before: str) -> bytes:
    text = zlib.decompress(compressed).decode()
    assert text.count(now) == 1
    return zlib.compress(text.replace(now, before).encode())


def test_user_text_is_never_mistaken_for_a_renamed_field() -> None:
    session = make.session()
    shell = 'echo \'"preemption":{"victims":"willing"}\' "external":null {"external":[]}'
    environment = {"victims": "willing", "external": "null", "preemption": '{"victims":"any"}'}
    given = replace(session, spec=replace(session.spec, argv=("sh", "-c", shell), environment=environment))
    read = decoder(Session, renamed=[PREEMPT_IN_POLICY, FOREIGN_USAGE_IN_PASS]).decode
    assert read(ENCODER.encode(given)) == given
