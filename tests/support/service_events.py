"""Events of records, as a store would make them."""

from typing import Any

from aliquot_schema.events import KIND_OF, Event, Record


def event_of(record: Record, kind: str, **more: Any) -> Event:
    """The event of a record; `more`: unusual fields."""
    usual = {"number": 1, "at_us": 1, "actor": "ann", "request_id": None, "epoch": 1, "pass_number": None}
    named = {"entity": KIND_OF[type(record)].entity, "entity_id": record.id, "entity_version": record.version}
    return Event(kind=kind, record=record, **(usual | named | more))
