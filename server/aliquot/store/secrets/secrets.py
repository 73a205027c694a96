"""Secrets store: encrypted values in a table of their own, rotation of the keys, and removal of unreadable values.

Values are not in the event log. Each user's secret names are, as `SecretNames`.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import Connection, Row, Table, and_, delete, insert, not_, select, text, update

from aliquot.service.accounts.secrets import StoredSecret
from aliquot.service.ports import RowWrite
from aliquot.store.audit.log import AuditAuthor, action, note_within, with_retries
from aliquot.store.columns import METADATA, TableRow, bytes_column, number_column, text_column, text_key
from aliquot.store.engines.database import Runner
from aliquot.store.mapping import SECRETS as NAMES
from aliquot.store.migration import check_unused
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.store import DatabaseStore
from aliquot_schema.errors import Unavailable
from aliquot_schema.identity.secrets import SecretNames
from aliquot_schema.ids import UserId

TRIES_MAX: Final = 5


class DatabaseSecrets:
    """Implements `aliquot.service.accounts.secrets.SecretStore`, which documents the methods."""

    def __init__(self, database: DatabaseStore, *, keys: SecretKeys) -> None:
        self._database = database
        self._keys = keys

    async def names(self, owner: UserId) -> tuple[StoredSecret, ...]:
        return await self._database.read(partial(names, owner=owner))

    async def put(self, owner: UserId, name: str, value: str, *, now_us: int) -> StoredSecret:
        await self._check_keys()
        for _ in range(TRIES_MAX):
            key_id, sealed = await asyncio.to_thread(self._keys.seal, value.encode(), owner=owner, name=name)
            known = await asyncio.to_thread(self._keys.ids)
            put = partial(store_row, owner=owner, name=name, key_id=key_id, sealed=sealed, now_us=now_us, known=known)
            try:
                stored = await self._database.write(put)
            except UnknownKey:
                await self._check_keys()
                continue
            if (await asyncio.to_thread(self._keys.ids))[:1] == (key_id,):
                return stored
            # The keys were rotated meanwhile, and this one may be removed.
        raise Unavailable("the keys of secrets are being rotated; try again")

    async def delete(self, owner: UserId, name: str) -> bool:
        return await self._database.write(partial(remove, owner=owner, name=name))

    async def values(self, owner: UserId, names: Collection[str]) -> Mapping[str, str]:
        found = await self._database.read(partial(sealed, owner=owner, wanted=names))

        def unsealed() -> dict[str, str]:
            return {
                row.name: self._keys.unseal(row.sealed, with_key=row.key_id, owner=row.owner, name=row.name).decode()
                for row in found
            }

        return await asyncio.to_thread(unsealed)

    async def missing_key(self) -> str | None:
        """The fault of the key file as a sentence; None if every secret can be decrypted."""
        try:
            here = await asyncio.to_thread(self._keys.ids)
        except Unavailable as error:
            return error.message
        used = await self._database.read(key_ids)
        lacking = [key for key in used if key not in here]
        return self._keys.missing(lacking[0]) if lacking else None

    async def _check_keys(self) -> None:
        """Reject writes while secrets exist that this server cannot decrypt: its key file is not the shared one."""
        fault = await self.missing_key()
        if fault is not None:
            raise Unavailable(fault)


class SecretRow(TableRow, table=True):
    """A user's secret."""

    __tablename__ = "secrets"

    owner: str = text_key()
    name: str = text_key()
    key_id: str = text_column()
    """Id of the key, see `aliquot.store.secrets.keys.key_id`."""
    sealed: bytes = bytes_column()
    created_us: int = number_column()
    changed_us: int = number_column()


SECRETS: Final[Table] = METADATA.tables["secrets"]

_KIND: Final = "secrets.forgotten"


def purge_writes(connection: Connection, gone: Sequence[Row[Any, Any]]) -> Iterator[RowWrite]:
    """One write per owner that records the remaining names.

    Args:
        gone: (owner, name) of the deleted secrets, sorted by owner.
    """
    for owner, rows in groupby(gone, key=attrgetter("owner")):
        names = {row.name for row in rows}
        recorded = _recorded_names(connection, UserId(owner))
        left = {name: set_us for name, set_us in recorded.set_us.items() if name not in names}
        yield RowWrite(record=replace(recorded, version=recorded.version + 1, set_us=left), kind=_KIND)


def _recorded_names(connection: Connection, owner: UserId) -> SecretNames:
    """The names recorded for an owner; before the first record, those in the table."""
    row = connection.execute(select(NAMES.table).where(NAMES.table.c.id == owner).with_for_update()).one_or_none()
    if row is not None:
        return NAMES.from_row(row)
    stored = connection.execute(select(SECRETS.c.name, SECRETS.c.changed_us).where(SECRETS.c.owner == owner))
    return SecretNames(id=owner, set_us={found.name: found.changed_us for found in stored})


class UnknownKey(Exception):
    """A secret in the table is encrypted with a key that the caller does not have."""


def names(connection: Connection, *, owner: str) -> tuple[StoredSecret, ...]:
    """See `SecretStore.names`."""
    columns = (SECRETS.c.name, SECRETS.c.created_us, SECRETS.c.changed_us)
    found = connection.execute(select(*columns).where(SECRETS.c.owner == owner).order_by(SECRETS.c.name))
    return tuple(StoredSecret(name=row.name, created_us=row.created_us, changed_us=row.changed_us) for row in found)


def store_row(
    connection: Connection,
    *,
    owner: str,
    name: str,
    key_id: str,
    sealed: bytes,
    now_us: int,
    known: Collection[str],
) -> StoredSecret:
    """See `SecretStore.put`.

    Args:
        known: ids of the caller's keys.
    Raises:
        UnknownKey: nothing is written, so that some server can always decrypt all rows.
    """
    with connection.begin():
        _lock(connection)
        others = select(SECRETS.c.key_id).where(not_(_is(owner, name)), SECRETS.c.key_id.not_in({key_id, *known}))
        if connection.execute(others.limit(1)).first() is not None:
            raise UnknownKey
        changed = {"key_id": key_id, "sealed": sealed, "changed_us": now_us}
        if connection.execute(update(SECRETS).where(_is(owner, name)).values(changed)).rowcount == 0:
            connection.execute(insert(SECRETS).values(owner=owner, name=name, created_us=now_us, **changed))
        created = connection.execute(select(SECRETS.c.created_us).where(_is(owner, name))).scalar_one()
    return StoredSecret(name=name, created_us=created, changed_us=now_us)


def remove(connection: Connection, *, owner: str, name: str) -> bool:
    """See `SecretStore.delete`."""
    with connection.begin():
        return connection.execute(delete(SECRETS).where(_is(owner, name))).rowcount > 0


def sealed(connection: Connection, *, owner: str, wanted: Collection[str]) -> list[Row[Any]]:
    """The rows of the named secrets of an owner."""
    stmt = select(SECRETS).where(SECRETS.c.owner == owner, SECRETS.c.name.in_(sorted(wanted)))
    return list(connection.execute(stmt).all())


def key_ids(connection: Connection) -> tuple[str, ...]:
    """Ids of the keys in use."""
    return tuple(connection.execute(select(SECRETS.c.key_id).distinct().order_by(SECRETS.c.key_id)).scalars())


def reencrypt(connection: Connection, *, keys: SecretKeys, by: AuditAuthor) -> int:
    """Encrypt all secrets with the newest key and record it, in one transaction; returns the number of secrets.

    Raises:
        Unavailable: a secret cannot be decrypted.
        StaleVersion, IntegrityError: see `note_within`.
    """
    with connection.begin():
        _lock(connection)
        rows = connection.execute(select(SECRETS)).all()
        for row in rows:
            value = keys.unseal(row.sealed, with_key=row.key_id, owner=row.owner, name=row.name)
            key_id, fresh = keys.seal(value, owner=row.owner, name=row.name)
            changed = update(SECRETS).where(_is(row.owner, row.name)).values(key_id=key_id, sealed=fresh)
            connection.execute(changed)
        facts = {"secrets": str(len(rows)), "key": keys.ids()[0]}
        note_within(connection, [action(connection, "secrets_rotated", facts)], by=by)
    return len(rows)


def delete_unreadable(connection: Connection, *, known: Collection[str], by: AuditAuthor) -> int:
    """Delete secrets encrypted with unknown keys, and record it; returns the number of deleted secrets.

    Raises:
        StaleVersion, IntegrityError: see `note_within`.
    """
    with connection.begin():
        _lock(connection)
        lost = SECRETS.c.key_id.not_in(known)
        gone = connection.execute(select(SECRETS.c.owner, SECRETS.c.name).where(lost).order_by(SECRETS.c.owner)).all()
        connection.execute(delete(SECRETS).where(lost))
        names = purge_writes(connection, gone)
        note_within(connection, [*names, action(connection, "secrets_forgotten", {"secrets": str(len(gone))})], by=by)
    return len(gone)


def _lock(connection: Connection) -> None:
    """Block other writers of secrets until the transaction ends. On SQLite, writers are serial anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE secrets IN SHARE ROW EXCLUSIVE MODE"))


def _is(owner: str, name: str) -> Any:
    return and_(SECRETS.c.owner == owner, SECRETS.c.name == name)


async def rotate(database: Runner, *, keys: SecretKeys, by: AuditAuthor) -> int:
    """Rotate the keys; returns the number of secrets.

    The file holds the old keys until the end, so an interrupted rotation can be repeated.

    Raises:
        Unavailable: a secret cannot be decrypted, or the file cannot be written; nothing is lost.
        StoreUnavailable: servers use the database; they would not read the new keys, nor notice the changes.
    """
    await database.read(check_unused)
    keys.begin_rotation()
    count = await database.write(with_retries(partial(reencrypt, keys=keys, by=by)))
    keys.end_rotation(used=await database.read(key_ids))
    return count


async def forget(database: Runner, *, keys: SecretKeys, by: AuditAuthor) -> int:
    """Delete secrets that no key of the file decrypts; returns their number.

    Raises:
        Unavailable: the key file cannot be used.
        StoreUnavailable: servers use the database; they would not notice the changes.
    """
    await database.read(check_unused)
    return await database.write(with_retries(partial(delete_unreadable, known=keys.ids(), by=by)))
