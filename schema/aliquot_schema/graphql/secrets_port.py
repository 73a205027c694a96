"""What resolvers ask about secrets."""

from typing import Protocol

from aliquot_schema.requests import Caller
from aliquot_schema.secrets import SecretChanged, SecretDeleted, SecretView


class SecretKeeper(Protocol):
    """Everybody has secrets of his own, and sees nobody else's. No value ever comes out again."""

    async def secrets(self, caller: Caller) -> tuple[SecretView, ...]: ...

    async def set_secret(self, caller: Caller, name: str, value: str) -> SecretChanged:
        """Raises InvalidRequest, LimitExceeded, Forbidden, Unavailable."""

    async def delete_secret(self, caller: Caller, name: str) -> SecretDeleted:
        """Raises NotFound, Forbidden, Unavailable."""
