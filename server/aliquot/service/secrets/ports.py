"""Where secrets are kept. What is there is encrypted; who asks here gets plain text."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from aliquot_schema.ids import UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A secret without its value."""

    name: str
    created_us: int
    changed_us: int


class SecretStore(Protocol):
    """Each method raises `StoreUnavailable` when the database fails."""

    async def names(self, owner: UserId) -> tuple[StoredSecret, ...]:
        """By name."""

    async def put(self, owner: UserId, name: str, value: str, *, now_us: int) -> StoredSecret:
        """Store durably, in place of an older one.

        Raises:
            Unavailable: there is no key to encrypt with, see `values`.
        """

    async def delete(self, owner: UserId, name: str) -> bool:
        """False when there was none."""

    async def values(self, owner: UserId, names: Collection[str]) -> Mapping[str, str]:
        """Those that are there.

        Raises:
            Unavailable: a key that something was encrypted with is missing; the message says what to do.
        """
