"""Secrets as functions of a connection."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, insert, not_, select, text, update

from aliquot.service.secrets.ports import StoredSecret
from aliquot.store.audit.noting import Hand, action, note_within
from aliquot.store.secrets.forgetting import forgotten
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.secrets.tables import SECRETS


class UnknownKey(Exception):
    """Something in the table is encrypted with a key that the caller does not know."""


def names(connection: Connection, *, owner: str) -> tuple[StoredSecret, ...]:
    """See `SecretStore.names`."""
    columns = (SECRETS.c.name, SECRETS.c.created_us, SECRETS.c.changed_us)
    found = connection.execute(select(*columns).where(SECRETS.c.owner == owner).order_by(SECRETS.c.name))
    return tuple(StoredSecret(name=row.name, created_us=row.created_us, changed_us=row.changed_us) for row in found)


def put(
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
        known: ids of all keys that the caller has.
    Raises:
        UnknownKey: nothing is written; there are never rows that no server can decrypt all of.
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
    """The rows of some of an owner's secrets."""
    asked = select(SECRETS).where(SECRETS.c.owner == owner, SECRETS.c.name.in_(sorted(wanted)))
    return list(connection.execute(asked).all())


def key_ids(connection: Connection) -> tuple[str, ...]:
    """Of the keys that anything is encrypted with."""
    return tuple(connection.execute(select(SECRETS.c.key_id).distinct().order_by(SECRETS.c.key_id)).scalars())


def reseal(connection: Connection, *, keys: SecretKeys, by: Hand) -> int:
    """Encrypt everything with the newest key, all of it or nothing, its event too; returns how many that were.

    Raises:
        Unavailable: something cannot be decrypted.
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


def forget(connection: Connection, *, known: Collection[str], by: Hand) -> int:
    """Delete what was encrypted with other keys than these, with events; returns how many secrets that were.

    Raises:
        StaleVersion, IntegrityError: see `note_within`.
    """
    with connection.begin():
        _lock(connection)
        lost = SECRETS.c.key_id.not_in(known)
        gone = connection.execute(select(SECRETS.c.owner, SECRETS.c.name).where(lost).order_by(SECRETS.c.owner)).all()
        connection.execute(delete(SECRETS).where(lost))
        names = forgotten(connection, gone)
        note_within(connection, [*names, action(connection, "secrets_forgotten", {"secrets": str(len(gone))})], by=by)
    return len(gone)


def _lock(connection: Connection) -> None:
    """Let nobody else store until the transaction ends; a transaction that writes to SQLite is alone anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE secrets IN SHARE ROW EXCLUSIVE MODE"))


def _is(owner: str, name: str) -> Any:
    return and_(SECRETS.c.owner == owner, SECRETS.c.name == name)
