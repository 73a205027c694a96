"""An in-memory store of secrets."""

import asyncio
from collections.abc import Collection, Mapping

from aliquot.service.accounts.secrets import StoredSecret
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import UserId


class Drawer:
    """A store in memory that can fail on request."""

    def __init__(self) -> None:
        self.kept: dict[tuple[UserId, str], str] = {}
        self.fault: Exception | None = None
        self.spoilt: str | None = None
        self.lost_key = False
        self.may_delete = True

    async def names(self, owner: UserId) -> tuple[StoredSecret, ...]:
        mine = sorted(name for whose, name in self.kept if whose == owner)
        return tuple(StoredSecret(name=name, created_us=1, changed_us=2) for name in mine)

    async def put(self, owner: UserId, name: str, value: str, *, now_us: int) -> StoredSecret:
        await asyncio.sleep(0)
        if self.lost_key:
            raise Unavailable("no such key")
        self.kept[owner, name] = value
        return StoredSecret(name=name, created_us=now_us, changed_us=now_us)

    async def delete(self, owner: UserId, name: str) -> bool:
        if not self.may_delete:
            raise StoreUnavailable("down")
        return self.kept.pop((owner, name), None) is not None

    async def values(self, owner: UserId, names: Collection[str]) -> Mapping[str, str]:
        if self.fault is not None:
            raise self.fault
        if self.spoilt in names:
            raise Unavailable("it was changed")
        return {name: self.kept[owner, name] for name in names if (owner, name) in self.kept}
