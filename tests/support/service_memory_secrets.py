"""An in-memory store of secrets."""

import asyncio
from collections.abc import Collection, Mapping

from aliquot.service.accounts.secrets import StoredSecret
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import UserId


class MemorySecrets:
    """A store in memory that can fail on request."""

    def __init__(self) -> None:
        self.stored: dict[tuple[UserId, str], str] = {}
        self.fault: Exception | None = None
        self.corrupted: str | None = None
        self.is_key_lost = False
        self.can_delete = True

    async def names(self, owner: UserId) -> tuple[StoredSecret, ...]:
        mine = sorted(name for whose, name in self.stored if whose == owner)
        return tuple(StoredSecret(name=name, created_us=1, changed_us=2) for name in mine)

    async def put(self, owner: UserId, name: str, value: str, *, now_us: int) -> StoredSecret:
        await asyncio.sleep(0)
        if self.is_key_lost:
            raise Unavailable("no such key")
        self.stored[owner, name] = value
        return StoredSecret(name=name, created_us=now_us, changed_us=now_us)

    async def delete(self, owner: UserId, name: str) -> bool:
        if not self.can_delete:
            raise StoreUnavailable("down")
        return self.stored.pop((owner, name), None) is not None

    async def values(self, owner: UserId, names: Collection[str]) -> Mapping[str, str]:
        if self.fault is not None:
            raise self.fault
        if self.corrupted in names:
            raise Unavailable("it was changed")
        return {name: self.stored[owner, name] for name in names if (owner, name) in self.stored}
