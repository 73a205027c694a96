"""Users and keys are the same after a restart, and the log has every change of them."""

import pytest
from msgspec.structs import replace

import store_records as make
from aliquot.service.state.identities import Identities
from aliquot_schema.events import Entity
from aliquot_schema.identity.accounts import ApiKey, KeyScope, Role, User
from aliquot_schema.ids import KeyId, ProjectId, UserId
from store_places import Place

pytestmark = pytest.mark.anyio

BOB = User(
    id=UserId("bob"),
    version=1,
    role=Role.OPERATOR,
    unix_name="bob",
    projects=(ProjectId("speech"), ProjectId("vision")),
    created_us=1,
    changed_us=1,
)
KEY = ApiKey(
    id=KeyId("key_1"),
    version=1,
    user=BOB.id,
    name="laptop",
    scope=KeyScope.SUBMIT,
    digest="0" * 64,
    created_us=1,
    expires_us=10,
)


async def test_users_and_keys_and_their_events_survive_a_restart(place: Place) -> None:
    store = place.store()
    await store.open()
    await store.commit(make.batch(BOB, KEY))
    disabled, revoked = replace(BOB, version=2, disabled=True), replace(KEY, version=2, revoked_us=5)
    await store.commit(make.batch(disabled, revoked))
    await store.close()

    store = place.store()
    loaded = await store.open()
    try:
        found = [record for record in loaded.records if isinstance(record, User | ApiKey)]
        assert found == [disabled, revoked]
        events = await store.events_after(0, limit=10)
        assert [event.entity for event in events] == [Entity.USER, Entity.KEY] * 2
        assert [event.record for event in events] == [BOB, KEY, disabled, revoked]
    finally:
        await store.close()


def test_a_key_is_valid_until_it_expires_or_is_revoked_or_its_user_is_disabled() -> None:
    people = Identities()
    people.put_key(KEY)
    assert people.bearer(KEY.id, now_us=1) is None
    people.put_user(BOB)
    found = people.bearer(KEY.id, now_us=9)
    assert found is not None
    assert (found.role, found.projects, found.expires_us) == (Role.USER, BOB.projects, 10)
    assert people.bearer(KEY.id, now_us=10) is None
    people.put_key(replace(KEY, revoked_us=0))
    assert people.bearer(KEY.id, now_us=9) is None
    people.put_key(KEY)
    people.put_user(replace(BOB, disabled=True))
    assert people.bearer(KEY.id, now_us=9) is None
