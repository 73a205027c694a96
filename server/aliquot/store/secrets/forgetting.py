"""Forgetting: what the log tells of secrets that were deleted because no key opens them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from aliquot.service.ports import Write
from aliquot.store.mapping import SECRETS as NAMES
from aliquot.store.secrets.tables import SECRETS
from aliquot_schema.ids import UserId
from aliquot_schema.secrets import SecretNames

_KIND: Final = "secrets.forgotten"


def forgotten(connection: Connection, gone: Sequence[Row[Any, Any]]) -> Iterator[Write]:
    """What each owner has still.

    Args:
        gone: (owner, name) of what was deleted, by owner.
    """
    for owner, rows in groupby(gone, key=attrgetter("owner")):
        names = {row.name for row in rows}
        told = _told(connection, UserId(owner))
        left = {name: set_us for name, set_us in told.set_us.items() if name not in names}
        yield Write(record=replace(told, version=told.version + 1, set_us=left), kind=_KIND)


def _told(connection: Connection, owner: UserId) -> SecretNames:
    """What the log tells of an owner's; where it tells nothing yet, what is there."""
    row = connection.execute(select(NAMES.table).where(NAMES.table.c.id == owner).with_for_update()).one_or_none()
    if row is not None:
        return NAMES.from_row(row)
    stored = connection.execute(select(SECRETS.c.name, SECRETS.c.changed_us).where(SECRETS.c.owner == owner))
    return SecretNames(id=owner, set_us={found.name: found.changed_us for found in stored})
