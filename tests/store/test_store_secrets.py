"""Secrets at rest: encrypted in both databases, bound to their rows and the key file, and rotated."""

import asyncio
import errno
import os
from collections.abc import Collection
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from aliquot.store.audit.log import AuditAuthor
from aliquot.store.secrets import secrets as rows
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.secrets.secrets import SECRETS, DatabaseSecrets, forget, rotate
from aliquot.store.store import DatabaseStore
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import RequestId, UserId
from store_places import Place

pytestmark = pytest.mark.anyio

ANNA, BEN = UserId("anna"), UserId("ben")
BY = AuditAuthor(actor="unix:root", request_id=RequestId("req_test"), at_us=1)
VALUE = "what nobody reads: ü 42"


def secrets_in(store: object, keys: Path) -> DatabaseSecrets:
    assert isinstance(store, DatabaseStore)
    return DatabaseSecrets(store, keys=SecretKeys(keys))


async def test_secrets_survive_restarts_and_are_never_stored_in_clear(place: Place, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    store = place.store()
    await store.open()
    secrets = secrets_in(store, keys)
    assert await secrets.missing_key() is None
    assert await secrets.names(ANNA) == ()
    first = await secrets.put(ANNA, "token", VALUE, now_us=10)
    assert (first.created_us, first.changed_us) == (10, 10)
    again = await secrets.put(ANNA, "token", VALUE + "!", now_us=20)
    assert (again.created_us, again.changed_us) == (10, 20)
    await secrets.put(BEN, "token", "his", now_us=30)
    await store.close()
    store = place.store()
    await store.open()
    secrets = secrets_in(store, keys)
    assert await secrets.values(ANNA, ["token", "other"]) == {"token": VALUE + "!"}
    assert await secrets.values(BEN, {"token"}) == {"token": "his"}
    assert oct(keys.stat().st_mode & 0o777) == "0o600"
    assert await secrets.delete(BEN, "token")
    assert not await secrets.delete(BEN, "token")
    await store.close()
    for path in place.folder.rglob("*"):
        assert not path.is_file() or VALUE.encode() not in path.read_bytes()


async def test_concurrent_first_writes_of_a_secret_all_succeed(place: Place, tmp_path: Path) -> None:
    store = place.store()
    await store.open()
    secrets = secrets_in(store, tmp_path / "keys")
    await secrets.put(ANNA, "other", VALUE, now_us=1)
    await asyncio.gather(*(secrets.put(ANNA, "token", VALUE, now_us=number) for number in range(8)))
    assert await secrets.values(ANNA, ["token"]) == {"token": VALUE}
    assert len(await secrets.names(ANNA)) == 2
    await store.close()


async def test_a_secret_row_moved_to_another_owner_is_refused(place: Place, tmp_path: Path) -> None:
    store = place.store()
    await store.open()
    secrets = secrets_in(store, tmp_path / "keys")
    await secrets.put(ANNA, "token", VALUE, now_us=1)

    def steal(connection: Connection) -> None:
        with connection.begin():
            connection.execute(update(SECRETS).values(owner=BEN))

    assert isinstance(store, DatabaseStore)
    await store.write(steal)
    with pytest.raises(Unavailable, match="was changed in the database"):
        await secrets.values(BEN, ["token"])
    await store.close()


async def test_secrets_sealed_with_the_key_of_another_server_give_a_clear_error(place: Place, tmp_path: Path) -> None:
    store = place.store()
    await store.open()
    await secrets_in(store, tmp_path / "first").put(ANNA, "token", VALUE, now_us=1)
    other = secrets_in(store, tmp_path / "second")
    wrong = await other.missing_key()
    assert wrong is not None
    assert "secrets-key-file" in wrong
    with pytest.raises(Unavailable, match="need the same file"):
        await other.put(ANNA, "second", VALUE, now_us=2)
    with pytest.raises(Unavailable, match="need the same file"):
        await other.values(ANNA, ["token"])
    assert not (tmp_path / "second").exists()
    await store.close()


def test_a_full_disk_leaves_no_copy_of_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = SecretKeys(tmp_path / "keys")
    keys.seal(b"value", owner=ANNA, name="token")

    def fsync(_file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(Unavailable, match="cannot be written: No space left"):
        keys.begin_rotation()
    assert list(tmp_path.iterdir()) == [keys.path]


async def test_rotation_leaves_one_key_that_opens_everything(place: Place, tmp_path: Path) -> None:
    keys = SecretKeys(tmp_path / "keys")
    store = place.store()
    await store.open()
    secrets = secrets_in(store, keys.path)
    for number in range(3):
        await secrets.put(ANNA, f"s{number}", VALUE + str(number), now_us=1)
    before = keys.ids()
    keys.begin_rotation()  # interrupted
    assert await secrets.values(ANNA, ["s1"]) == {"s1": VALUE + "1"}
    await store.close()
    database = place.database()
    await database.open()
    try:
        assert await rotate(database, keys=keys, by=BY) == 3
        found = await database.read(partial(_key_ids))
    finally:
        await database.close()
    assert len(keys.ids()) == 1
    assert keys.ids() != before
    assert found == set(keys.ids())
    store = place.store()
    await store.open()
    assert await secrets_in(store, keys.path).values(ANNA, ["s2"]) == {"s2": VALUE + "2"}
    await store.close()


async def test_only_one_of_two_servers_with_different_new_keys_can_store_secrets(place: Place, tmp_path: Path) -> None:
    store = place.store()
    await store.open()
    servers = [secrets_in(store, tmp_path / name) for name in ("first", "second")]
    done = await asyncio.gather(
        *(server.put(ANNA, f"s{number}", VALUE, now_us=1) for number, server in enumerate(servers)),
        return_exceptions=True,
    )
    assert sorted(isinstance(one, Unavailable) for one in done) == [False, True]
    assert isinstance(store, DatabaseStore)
    assert len(await store.read(_key_ids)) == 1
    await store.close()


class RotatedMeanwhile(SecretKeys):
    """Another process rotates its keys right after the first use."""

    rotated = False

    def seal(self, value: bytes, *, owner: str, name: str) -> tuple[str, bytes]:
        sealed = super().seal(value, owner=owner, name=name)
        if not self.rotated:
            self.rotated = True
            self.begin_rotation()
            self.end_rotation(used=())
        return sealed


async def test_a_rotation_loses_nothing_that_is_stored_meanwhile(place: Place, tmp_path: Path) -> None:
    store = place.store()
    await store.open()
    assert isinstance(store, DatabaseStore)
    secrets = DatabaseSecrets(store, keys=RotatedMeanwhile(tmp_path / "keys"))
    await secrets.put(ANNA, "token", VALUE, now_us=1)
    assert await secrets.values(ANNA, ["token"]) == {"token": VALUE}
    await store.close()


class RotatedTwice(SecretKeys):
    """Another process starts a rotation when this one is nearly done."""

    def end_rotation(self, *, used: Collection[str]) -> None:
        self.begin_rotation()
        super().end_rotation(used=used)


async def test_two_concurrent_rotations_lose_no_secret(place: Place, tmp_path: Path) -> None:
    store = place.store()
    await store.open()
    assert isinstance(store, DatabaseStore)
    keys = SecretKeys(tmp_path / "keys")
    secrets = secrets_in(store, keys.path)
    await secrets.put(ANNA, "token", VALUE, now_us=1)
    assert await rotate(store, keys=RotatedTwice(keys.path), by=BY) == 1
    assert await secrets.values(ANNA, ["token"]) == {"token": VALUE}
    assert await rotate(store, keys=keys, by=BY) == 1  # the other one continues with it
    assert await secrets.values(ANNA, ["token"]) == {"token": VALUE}
    assert len(keys.ids()) == 1
    await store.close()


async def test_unreadable_secrets_can_be_deleted_and_other_secrets_are_kept(place: Place, tmp_path: Path) -> None:
    keys, lost = SecretKeys(tmp_path / "keys"), SecretKeys(tmp_path / "lost")
    store = place.store()
    await store.open()
    await secrets_in(store, keys.path).put(ANNA, "kept", VALUE, now_us=1)
    key_id, sealed = lost.seal(b"x", owner=ANNA, name="gone")
    gone = {"owner": ANNA, "name": "gone", "key_id": key_id, "sealed": sealed, "now_us": 1, "known": keys.ids()}
    assert isinstance(store, DatabaseStore)
    await store.write(partial(rows.store_row, **gone))
    secrets = secrets_in(store, keys.path)
    wrong = await secrets.missing_key()
    assert "aliquot db forget-secrets" in str(wrong)
    await store.close()
    database = place.database()
    await database.open()
    try:
        assert await forget(database, keys=keys, by=BY) == 1
    finally:
        await database.close()
    store = place.store()
    await store.open()
    secrets = secrets_in(store, keys.path)
    assert await secrets.missing_key() is None
    assert [secret.name for secret in await secrets.names(ANNA)] == ["kept"]
    await store.close()


def _key_ids(connection: Connection) -> set[str]:
    return set(connection.execute(select(SECRETS.c.key_id)).scalars())


@pytest.mark.parametrize("text", ["", "short\n", "!!!!\n", "A" * 43 + "\n"])
def test_a_key_file_without_valid_keys_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(Unavailable):
        SecretKeys(path).seal(b"x", owner="a", name="b")


def test_a_key_file_that_is_shared_or_a_symlink_is_refused(tmp_path: Path) -> None:
    keys = SecretKeys(tmp_path / "keys")
    keys.seal(b"x", owner="a", name="b")
    keys.path.chmod(0o640)
    with pytest.raises(Unavailable, match="others than its owner"):
        keys.ids()
    keys.path.chmod(0o600)
    os.symlink(keys.path, tmp_path / "link")
    with pytest.raises(Unavailable):
        SecretKeys(tmp_path / "link").ids()
