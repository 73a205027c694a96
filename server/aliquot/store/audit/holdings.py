"""Who held a device, at a moment or over a time."""

from sqlalchemy import ColumnElement, Connection, or_, select

from aliquot.service.auditing.ports import Holding
from aliquot.store.audit.tables import HOLDINGS


def held_at(connection: Connection, *, device_id: str, at_us: int) -> tuple[Holding, ...]:
    """Who held a device at a moment, in the order of the grants."""
    return _found(connection, HOLDINGS.c.device_id == device_id, *_within(at_us, at_us))


def held_between(connection: Connection, *, device_id: str, first_us: int, last_us: int) -> tuple[Holding, ...]:
    """Who held a device at any time between two moments, both included."""
    return _found(connection, HOLDINGS.c.device_id == device_id, *_within(first_us, last_us))


def _within(first_us: int, last_us: int) -> tuple[ColumnElement[bool], ...]:
    return HOLDINGS.c.from_us <= last_us, or_(HOLDINGS.c.ended_us.is_(None), HOLDINGS.c.ended_us > first_us)


def _found(connection: Connection, *conditions: ColumnElement[bool]) -> tuple[Holding, ...]:
    asked = select(HOLDINGS).where(*conditions).order_by(HOLDINGS.c.granted_event, HOLDINGS.c.slot)
    return tuple(Holding(**row) for row in connection.execute(asked).mappings())
