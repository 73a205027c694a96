"""Secrets, over a database and a file of keys."""

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from aliquot.service.secrets.ports import StoredSecret
from aliquot.store.secrets import rows
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.store import DatabaseStore
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import UserId

TRIES_MAX: Final = 5


class DatabaseSecrets:
    """`aliquot.service.secrets.ports.SecretStore`; what the methods promise is said there."""

    def __init__(self, database: DatabaseStore, *, keys: SecretKeys) -> None:
        self._database = database
        self._keys = keys

    async def names(self, owner: UserId) -> tuple[StoredSecret, ...]:
        return await self._database.read(partial(rows.names, owner=owner))

    async def put(self, owner: UserId, name: str, value: str, *, now_us: int) -> StoredSecret:
        await self._check_first()
        for _ in range(TRIES_MAX):
            key_id, sealed = await asyncio.to_thread(self._keys.seal, value.encode(), owner=owner, name=name)
            known = await asyncio.to_thread(self._keys.ids)
            put = partial(rows.put, owner=owner, name=name, key_id=key_id, sealed=sealed, now_us=now_us, known=known)
            try:
                stored = await self._database.write(put)
            except rows.UnknownKey:
                await self._check_first()
                continue
            if (await asyncio.to_thread(self._keys.ids))[:1] == (key_id,):
                return stored
            # The keys were rotated meanwhile, and this one may be forgotten.
        raise Unavailable("the keys of secrets are being changed; try again")

    async def delete(self, owner: UserId, name: str) -> bool:
        return await self._database.write(partial(rows.remove, owner=owner, name=name))

    async def values(self, owner: UserId, names: Collection[str]) -> Mapping[str, str]:
        found = await self._database.read(partial(rows.sealed, owner=owner, wanted=names))

        def unsealed() -> dict[str, str]:
            return {
                row.name: self._keys.unseal(row.sealed, with_key=row.key_id, owner=row.owner, name=row.name).decode()
                for row in found
            }

        return await asyncio.to_thread(unsealed)

    async def missing_key(self) -> str | None:
        """What is wrong with the file of keys, in words; None when everything can be decrypted."""
        try:
            here = await asyncio.to_thread(self._keys.ids)
        except Unavailable as error:
            return error.message
        used = await self._database.read(rows.key_ids)
        lacking = [key for key in used if key not in here]
        return self._keys.missing(lacking[0]) if lacking else None

    async def _check_first(self) -> None:
        """Encrypt nothing with a key of one's own beside what another server's key encrypted."""
        wrong = await self.missing_key()
        if wrong is not None:
            raise Unavailable(wrong)
