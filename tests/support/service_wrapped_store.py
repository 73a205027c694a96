"""A store wrapper for tests that change the outcome of commits."""

from typing import Any

from aliquot.service.ports import Batch, Store
from aliquot_schema.events import Event


class WrappedStore:
    """Implements the port `Store` with the other one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        return await self._store.commit(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
